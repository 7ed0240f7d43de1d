"""Rules for what a text says: orders to agents, and requests for secrets.

A rule is a pattern over plain text (lower case, without invisible characters, look-alikes in words of mixed alphabets
undone, white space as one space). What an honest description says of its own tool must not match:
"use this tool when",
"you must call X first", "do not call it without asking the user". So a rule wants the verb together with what makes it
an attack: whose instructions are to be ignored, from whom something is to be kept.

Gaps are bounded and end with a sentence, so that a pattern takes time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

RuleKind = Literal["instructs", "asks_for_secrets"]


class TextRule(NamedTuple):
    kind: RuleKind
    what: str
    """What the text does: `tells an agent to ...`."""
    anchors: tuple[frozenset[str], ...]
    """One of each set is in every text that matches: looked for first, as that is fast."""
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    """Matched at what stands up to 60 characters before, and up to the end of the match."""


def text_rule(kind: RuleKind, what: str, anchors: str, pattern: str, unless: str | None = None) -> TextRule:
    return TextRule(
        kind,
        what,
        tuple(frozenset(each.split("|")) for each in anchors.split("&")),
        re.compile(_filled(pattern)),
        re.compile(_filled(unless)) if unless else None,
    )


def _filled(pattern: str) -> str:
    for name, value in _PARTS.items():
        pattern = pattern.replace(f"<{name}>", value)
    return pattern.replace("~~", r"[^.!?;。！？]{0,80}?").replace("~", r"[^.!?;。！？]{0,30}?")


_PARTS: Final = {
    "ORDERS": r"(?:instruction|rule|prompt|guideline|polic(?:y|ies)|direction|order|command|restriction|constraint|"
              r"guardrail|safety|training|limitation|programming)s?\b",
    "INSIDE": r" (?:in|inside|within|from|found in) (?:it|them|these|those|results?|the (?:results?|content|data|page|"
              r"text|output|files?|documents?))\b",
    "THEIRS": r"\b(?:previous|prior|preceding|earlier|above|existing|former|other|all|any|every|whatever|your|system|"
              r"developer'?s?|user'?s|safety|security|original|initial|them|his|her)\b",
    "USER": r"\b(?:the )?(?:user|human|person|end[- ]user|customer|operator|people)\b(?![’']s\b)(?!s?['’]?s? (?:id|"
            r"name|"
            r"account))",
    "NOT": r"\b(?:do not|don[’']?t|never|must not|mustn[’']?t|should not|shouldn[’']?t|may not|not to|no need to|"
           r"need not|without|avoid|refrain from|instead of|rather than|cannot|under no circumstances)\b",
    "SAY": r"(?:tell|mention|inform|reveal|disclos|notif|alert|let|point(?:ing)? out|bother|admit|explain|warn|"
           r"confess|show|report|announc|acknowledg)(?:e|y|ing|ting|ling|ying)?\b",
    "AGENT": r"\b(?:assistants?|agents?|(?:ai|language|llm) models?|the model|llms?|ais?|claude|chatgpt|gpt|"
             r"copilot|cursor)\b",
    "ALL_OF": r"(?:full|entire|complete|whole|all|every|each|verbatim|raw|so far|up to now|everything|word for "
              r"word|copy)",
    "TALK": r"(?:conversation|chat|dialog(?:ue)?|messages?|transcript|discussion|session history|context window)",
    "GIVE": r"\b(?:pass|send|include|provide|submit|copy|fill|forward|put|attach|append|paste|dump|hand|transmit|post|"
            r"share|upload|supply|give|insert|add|write|embed|repeat|place|return|report|fetch|need|needs)\b",
    "READ": r"\b(?:read|open|load|cat|collect|include|pass|send|provide|give|attach|hand|paste|copy|needs?|extract|"
            r"grab|fetch|retrieve|upload|dump|contents?|lines|values?|what(?: is)? in|what they hold|"
            r"lies|lese|öffne|inhalt|übergib|lee|leer|contenido|abre|lis|contenu|leia|lê|conteúdo|envie|"
            r"прочитай|прочти|прочитать|содержимое|открой|передай)\b|读取|讀取|内容|內容|打开|読み|中身",
    "SECRET_FILE": r"(?:\.ssh/(?!\S{0,60}\.pub)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)|\.aws/(?:credentials|"
                   r"config)|"
                   r"\.git-credentials|\.netrc|\.pgpass|\.gnupg|\.kube/config|\.docker/config\.json|\.npmrc|\.pypirc|"
                   r"\bmcp\.json|claude_desktop_config|/etc/(?:passwd|shadow)|\.(?:bash|zsh|psql|mysql|"
                   r"python)_history|"
                   r"wallet\.dat|\blogin data\b|credentials\.json|application_default_credentials|\.vault-token)",
}  # fmt: skip

RULES: Final[Sequence[TextRule]] = (
    # orders
    text_rule("instructs", "tells an agent to set its instructions aside",
          "ignor|disregard|forget|overrid|bypass|overrul|supersed|neglect|set aside|dismiss",
          r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing|es)|bypass(?:ing)?|overrul(?:e|es)|"
          r"supersedes?|"
          r"neglect|set aside|dismiss)\b(?=~~(?:<ORDERS>|\btold\b|\bsaid\b|\bmessage\b|\brequest\b))~<THEIRS>"
          r"(?:~(?:<ORDERS>)(?!<INSIDE>)|~\b(?:you|user|developer)\b~\b(?:told|said|gave|given|messages?|requests?|"
          r"taught)\b)",
          r"(?:\bnever\b|\bnot\b|don[’']t|\bany instructions? in\b|\binstructions? (?:in|inside|within|from) "
          r"(?:the |it|its|"
          r"them|this|results?|content|data)|\b(?:treat|as data)\b)[^.]{0,40}$|in (?:it|them|the results?)$"),
    text_rule("instructs", "tells an agent to set its instructions aside", "user|developer|told|said",
          r"\b(?:ignore|disregard|forget)\b ~\b(?:what|whatever|anything|everything|rules|wishes)\b~(?:user|developer|"
          r"people|you (?:were|are|have been))~(?:said|told|says|given|typed|asked)"),
    text_rule("instructs", "tells an agent to keep something from the user",
          "tell|mention|inform|reveal|disclos|notif|alert|know|point|bother|admit|explain|warn|confess|show|"
          "acknowledg|report|announc",
          r"<NOT>~<SAY>~(?:<USER>|\bthem\b|\banyone\b|\bhim\b|\bher\b)(?! (?:to\b|how\b|where\b|(?:that "
          r")?(?:they|it|you|a|an|your)\b|"
          r"(?:about )?(?:the |any |its |their |these |those |raw |internal |technical )*(?:ids?|identifiers?|"
          r"uuids?|creation|keys?|json|"
          r"urls?|paths?|errors?|tokens?|secrets?|passwords?|names?)\b))",
          r"\b(?:never|not|don[’']t|no|nothing)\b[^.]{0,60}\bwithout\b|\bshow(?:ing)?\b|users\b|\blet\b(?!.*\bknow)|"
          r"\b(?:never|not) (?:\w+ ){0,3}(?:reveal|show|disclose|report|explain)\b(?=[^.]*(?:id|token|key|"
          r"secret|password|"
          r"path|url|json|raw|internal|schema|name|error|stack))"),
    text_rule("instructs", "tells an agent to keep something from the user",
          "hid|conceal|secret|silent|quiet|keep|covert|discre",
          r"\b(?:hid(?:e|ing)|conceal(?:ing)?|keep(?:ing)?|withhold(?:ing)?)\b~(?:\bfrom\b|\bto yourself\b|"
          r"\bsecret\b|\bthat you\b)"
          r"(?: ~(?:<USER>|\bthem\b))?(?<!from)",
          r"\b(?:secrets?|sync|up|track|state|keys?)\b"),
    text_rule("instructs", "tells an agent to act without the user's knowledge",
          "silent|secret|without|covert|quietly|discreet|unnotic",
          r"<AGENT>~\b(?:silently|secretly|covertly|quietly|discreetly|without (?:asking|telling|informing|mentioning|"
          r"notifying)~(?:user|them|human))\b|"
          r"\b(?:silently|secretly|covertly|quietly|discreetly|without (?:any )?(?:asking|telling|informing|"
          r"mentioning|"
          r"confirm(?:ing|ation)|permission|consent|approval)(?: (?:from|of|by|to|with))?~(?:user|them|human|it|"
          r"anyone)?)~~"
          r"\b(?:send|forward|upload|post|read|run|execute|delete|copy|push|install|approve|change|commit|transfer)\b~"
          r"(?:user|file|command|script|shell|secret|key|message|all)"),
    text_rule("instructs", "does away with the user's consent", "confirm|permission|consent|approv|asking|agreed",
          r"(?<!not )(?<!never )\b(?:skip(?:ping)?|no longer (?:ask|need|require)|need(?:s|ed)? no|"
          r"do(?:es)? not (?:need|require))\b~"
          r"\b(?:confirm\w{0,12}|permission|consent|approv\w{0,12}|asking (?:the user|for))\b|\bapprove "
          r"(?:every|all|any) (?:\w+ )?(?:actions?|"
          r"requests?|changes?|calls?|commands?|things?)\b|"
          r"\bconfirmations?\b~\b(?:are|is) not (?:required|needed)|\buser (?:has |have )?already (?:agreed|"
          r"consented|approved|confirmed)",
          r"\b(?:if|unless|when|whether|parameter|flag|set to|true|false|requires?|default|option|only)\b"),
    text_rule("instructs", "speaks in the name of the system or the user",
          "<important|<system|<|im_|[inst]|</tool|</desc|<instr|[[assistant|[system|<secret|<hidden|<assistant|"
          "<<sys|<user>|</system|<critical",
          r"</?(?:system|assistant|tool|tools|description|user|hidden|secret|admin|developer|"
          r"function)(?:[ "
          r"_-]?(?:prompt|message|"
          r"instructions?|note|override))?\s?>|<(?:important|critical|urgent|attention)>|<\|(?:im_start|im_end|system|"
          r"user|assistant|start_header_id|endoftext)\|?>?|\[/?inst\]|<</?sys>>|\[\[?\s?(?:system|assistant|"
          r"agent|model|ai)\b\s?[:\]]",
          r"[\"'`]$|\b(?:html|xml|tag|tags|element)\b"),
    text_rule("instructs", "speaks in the name of the system or the user",
          "system:|assistant:|human:|user:|system note|developer:|admin:|instructions for|for the model|for the "
          "assistant|note to|"
          "attention|dear |to the ai|to all|new instructions|instructions to",
          r"(?:^|[.!?:)\]\-—–] ?|[#*] )(?:system|developer|admin|human)(?: (?:message|note|override|prompt))?: "
          r"?(?=[a-z])|"
          r"\b(?:attention|dear|hello|hey|listen)\b,?(?: all| every)? (?:ai |language |llm )?(?:assistants?|"
          r"agents?|models?|llms?|ai)\b"
          r"(?: \w+)?\s?[:,!.\-—]|\b(?:only for|for) the (?:ai |language )?(?:assistant|agent|model|llm)s? "
          r"only\b|\bnew (?:instructions|task|rules?)\b"
          r"(?:~\b(?:assistant|model|agent|you)\b| ?:| is)|(?:^|[.!?:] )assistant(?: \w+){0,2}: ",
          r"\b(?:file|operating|example|e\.g\.|one of|role|either|type|values?|enum|format)\b[^.]{0,60}$"),
    text_rule("instructs", "puts itself above the user or the system",
          "precedence|outrank|priority over|above all|obey|trump|regardless of what|even if the user|no matter "
          "what|before those of|loyal",
          r"\b(?:takes?|has|have) (?:precedence|priority) over\b~(?:\b(?:system|user|developer|all|any|"
          r"every)\b)~(?:prompt|"
          r"instruction|wish|rule|message|else|user|guideline)|\boutranks?\b|\babove all others\b|"
          r"\b(?:must|now|only|always|you|shall|assistant|and) obey\b|\bobeys? (?:the|this|only|nobody|it|her|"
          r"him|instructions)\b|"
          r"\b(?:regardless of what|even if|no matter what) (?:the |a )?(?:user|human|person)\b~(?:says?|asks?|"
          r"objects?|wants?|"
          r"refuses?|told|disagrees?)|\bwhose wishes come before\b|\b(?:loyal|devoted) (?:agent|servant|assistant)\b",
          r"\b(?:robots|rate|css|constraint|flag)\b"),
    text_rule("instructs", "gives the agent another role",
          "you are now|pretend|act as|from now on|from here on|from this m|henceforth|without restrictions|no "
          "restrictions|mode:|role of|play a game|jailbreak|dan ",
          r"\byou are (?:now|no longer)\b~~\b(?:rules?|unrestricted|restrict\w{0,5}|mode|limit\w{0,5}|polic\w{1,3}|"
          r"filters?|free|root|admin\w{0,9}|dan|bound|obey|must|agent|assistant|system|developer|evil|ignore|no)\b|"
          r"\b(?:pretend|act as|behave as|play the role of)\b~(?:you|"
          r"administrator|root|without|no "
          r"restriction|unrestricted|loyal|another assistant|evil|developer mode)|\b(?:from now on|from here on|"
          r"from this (?:message|"
          r"moment|point) on|henceforth)\b~(?:\byou\b|\bassistants?\b|\bcall\b|\balways\b|\bdo\b|\bobey\b|"
          r"\brun\b|\bignor|\bdisregard|"
          r"\brecommend|\bmust\b|\btreat\b|\ball\b)|\b(?:assistant|model|ai|agent|you)\b~\bwithout (?:any "
          r")?restrictions\b|"
          r"\bdeveloper mode\b~\benabled|\b(?:run|call|do|act|work|tests?)\b~\bfrom (?:now|here) on\b",
          r"\byou are now (?:able|connected|authenticated|logged|ready|viewing|on)\b"),
    text_rule("instructs", "wants to be called in each conversation, whatever it is about",
          "every |each |any |other tool|no other",
          r"\b(?:before|prior to|at the (?:start|beginning|end) of|after|with)\b~\b(?:every|each|any|all)\b(?: "
          r"\w+){0,2} (?:answers?|repl(?:y|ies)|"
          r"responses?|messages?|conversations?|sessions?|chats?|prompts?)\b(?!~(?:id|thread|channel|inbox|mailbox))|"
          r"\bbefore (?:answering|replying to|responding to) (?:any|every|each|the user|anything)\b|"
          r"\b(?:run|call|use)\b~\bbefore (?:every|any|all) other tools?\b~(?:\bhide\b|\bdo not\b|\bconceal|"
          r"\bnever\b)|"
          r"\bno other tool\b~\b(?:used|called|before|until)\b",
          r"\b(?:email|mail|thread|sms|whatsapp|slack|inbox|error|validation|http|api|response format)\b"),
    text_rule("instructs", "tells an agent to pass the user's words on", "user|conversation|message|question",
          r"<GIVE>~(?:\bcopy of\b|\beverything\b|\ball\b|\bevery\b|\beach\b|\bsummary of the whole\b|"
          r"\bwhat\b)~\b(?:user|human|conversation|"
          r"chat)\b~(?:question|types?|say|says|said|asks?|message|wrote|writes|input|so far|"
          r"conversation)?~\b(?:to|at|into|with|as|in)\b"
          r"(?= ~(?:@|https?:|this tool|our |server|the address|address))"),
    text_rule("instructs", "has a command from the net run", "curl|wget|iwr|invoke-webrequest",
          r"\b(?:curl|wget|iwr)\b[^|;]{1,120}\|\s?(?:sudo )?(?:ba|z)?sh\b",
          r"\binstall(?:ed|ation|er|ing)? (?:with|via|using|by|it|the cli|:)"),
    text_rule("instructs", "has commands prefixed or run", "chmod|sudo|rm -rf|commands",
          r"\b(?:all|every|each|any)\b~\bcommands?\b~\b(?:prefixed|preceded|start|begin|end|followed)\b|"
          r"\b(?:assistant|agent|must|please|"
          r"you)\b~\b(?:run|execute)\b~(?:`?sudo|`?rm -rf|`?chmod|any command|whatever)"),
    text_rule("instructs", "has what comes from outside obeyed",
          "carried out|to the letter|as orders|as instructions|act on them|follow it|result contains|as coming "
          "from|execute it|do what",
          r"\b(?:loaded|fetched|read|downloaded)\b~\band (?:carried out|executed|followed|obeyed)\b|"
          r"\bfollow(?:ed|s|ing)?\b~\bto the letter\b|"
          r"\btreat\b~\bas (?:trusted |direct |your )?(?:orders|instructions|commands|coming from the "
          r"(?:developer|system|user))\b|"
          r"\bacts? on them at once\b|\b(?:run|execute|do)\b~\b(?:whatever|anything|everything|any) \w{0,12} "
          r"?(?:command )?~\b(?:result|page|"
          r"output|response)s? (?:contains?|says?|asks?)|\bexecute it immediately\b",
          r"\b(?:never|not|don[’']t)\b[^.]{0,40}$|\bnever\b"),
    text_rule("instructs", "has the agent's memory or rules rewritten",
          "claude.md|agents.md|.cursorrules|future sessions|future conversations|remember",
          r"\b(?:write|add|append|save|put|store)\b~(?:claude\.md|agents\.md|\.cursorrules|"
          r"copilot-instructions)~(?:\bno\b|\bnot\b|\bnever\b|"
          r"\bsilent|\bdo not\b|\bwithout\b|:)|\bremember\b~\b(?:all |every )?future (?:sessions|conversations)\b"),
    text_rule("instructs", "has the user steered",
          "recommend|steer|advert|promot|negative|looks good|leave out|was audited|is safe",
          r"\b(?:always|whenever|gently|you (?:must|should))\b~\b(?:recommend|steer|promote|advertise|"
          r"favou?r)\b~(?:user|\.example|\.com|instead|over |the broker|"
          r"our |always)|\b(?:append|add|insert|include)\b~\badvert\w{0,12}\b~\b(?:every|each|all|your)\b|"
          r"\b(?:say|answer|reply|claim|tell)\b~\bthat it (?:looks good|is safe|was audited|is secure)\b|"
          r"\bmake\b~\b(?:summary|answer|review|comparison)\b~\b(?:negative|positive|worse|better)\b~\bwithout\b|"
          r"\bleave out of your (?:answers?|repl)"),
    text_rule("instructs", "has the answer to the user falsified", "change|swap|replace|in your answer|your answer",
          r"\b(?:change|swap|replace|alter|falsif)\w{0,12}\b~~\bin your (?:answer|reply|response|summary|output)s?\b"),
    text_rule("instructs", "says what only an agent is meant to read", "<!--",
          r"<!--[^>]{0,200}(?:\bmodel\b|\bassistant\b|\bagent\b|\bai\b|\bllm\b|\bnever\b|\buser\b|"
          r"\bignore\b)[^>]{0,200}(?:-->|$)"),
    # orders, in other languages
    text_rule("instructs", "tells an agent to set its instructions aside",
          "무시|잊|negeer|vergeet|dimentica|plus compte|これまで|ignorier|missacht|"
          "vergiss|ignora|omite|olvida|ignore|oublie|"
          "игнорир|забудь|忽略|无视|無視|忘记|"
          "esqueça|ignorez",
          r"(?:지시|명령|규칙)\w{0,3} ?(?:무시|잊)|\b(?:negeer|vergeet)\b~(?:instructies|regels|opdrachten)|"
          r"\bdimentica\b~(?:istruzioni|regole)|\bplus compte\b~(?:consignes|instructions)|"
          r"これまで[^。]{0,8}(?:無視|忘れ)|"
          r"\b(?:ignoriere|missachte|vergiss)\b~(?:anweisung|regel|vorgabe|befehl)|\b(?:ignora|olvida|omite|"
          r"descarta)\b~(?:instrucci|regla|orden|istruzion)|"
          r"\b(?:ignore[zr]?|oublie[zr]?|néglige[zr]?)\b~(?:instructions? (?:précédentes?|antérieures?|"
          r"ci-dessus)|consignes)|\b(?:ignore|desconsidere|esqueça)\b~(?:instruç|regras)|"
          r"(?:игнорир|забудь|пренебрег)\w{0,12}~(?:инструкц|указани|правил)|(?:忽略|无视|無視|忘记|忘掉|"
          r"不要理会)[^。]{0,20}(?:指令|指示|说明|规则|提示)|"
          r"(?:指示|命令|ルール)[^。]{0,12}(?:無視|忘れ)"),
    text_rule("instructs", "tells an agent to keep something from the user",
          "사용자|utente|gebruiker|知らせ|benutzer|nutzer|anwender|usuario|utilisateur|usuário|пользовател|用户|用戶|ユーザー",
          r"사용자에게 ?\S{0,10} ?(?:알리지|말하지|보여주지)|\bnon (?:dire|informare|mostrare)\w{0,3}\b~utente|"
          r"\b(?:vertel|zeg|toon)\b~gebruiker~\b(?:niet|niets)\b|ユーザー[^。]{0,6}知らせ(?:ず|ない)|(?:(?:sag|erwähn|verrat|"
          r"mitteil|teil|erzähl|zeig|informier)\w{0,12}~(?:benutzer|nutzer|"
          r"anwender)\w{0,12}~\b(?:nicht|nichts|keinesfalls|auf keinen fall|niemals)\b)|"
          r"(?:\b(?:ohne|niemals|nie|nicht)\b~(?:benutzer|nutzer|anwender)\w{0,12}~(?:sag|erwähn|informier|"
          r"mitzuteil|zu frag|zeig|verrat))|"
          r"\bno (?:se )?(?:lo |le )?(?:digas|menciones|informes|cuentes|reveles|muestres)\b~usuario|\bsin "
          r"(?:informar|avisar|decir|preguntar)\w{0,12}~usuario|\bocult\w{0,12}~usuario|"
          r"\b(?:n'en parle[zr]? pas|ne (?:le )?(?:dis|dites|mentionne[zr]?|révèle[zr]?)\b~\bpas)~utilisateur|"
          r"\bsans (?:informer|prévenir|avertir)~utilisateur|"
          r"\b(?:não (?:conte|diga|mencione|informe|revele)|sem (?:informar|avisar))\b~usuário|"
          r"\bне (?:сообщай|говори|рассказывай|упоминай|показывай|раскрывай|информируй)\w{0,12}~пользовател|"
          r"\b(?:скрыва|скрой|утаи)\w{0,12}~(?:пользовател|от него)|"
          r"\bскрывать\b|(?:不要|别|不得|切勿|请勿|無需|无需)[^。]{0,6}(?:告诉|告知|提及|透露|通知|"
          r"向)[^。]{0,8}(?:用户|用戶)|(?:瞒着|隐瞒|對)[^。]{0,6}用户|"
          r"ユーザー[^。]{0,10}(?:知らせない|言わない|伝えない|見せない|明かさない)|ユーザーに(?:内緒|黙って)",
          r"users\b"),
    text_rule("instructs", "gives the agent another role",
          "a partir de ahora|ab jetzt|von nun an|с этого момента|отныне|从现在起|从现在开始|à partir de "
          "maintenant|a partir de agora|今から|должен всегда",
          r"\b(?:a partir de (?:ahora|agora)|ab jetzt|von nun an|ab sofort|с этого момента|отныне|à partir de "
          r"maintenant)\b~\b(?:debes|deves|du|musst|bist|ты|tu|vous|você|siempre|immer)\b|"
          r"\bты должен всегда\b|从现在(?:起|开始)[^。]{0,12}(?:你|必须)|今から[^。]{0,12}(?:あなた|必ず)"),
    # secrets and files
    text_rule("asks_for_secrets", "asks for a file that holds secrets",
          ".ssh|id_rsa|id_ed25519|id_ecdsa|.aws/|.git-credentials|.netrc|.pgpass|.gnupg|.kube/|.docker/|.npmrc|"
          ".pypirc|mcp.json|claude_desktop|/etc/|_history|wallet.dat|login data|credentials.json|"
          "application_default|.vault-token",
          r"(?:<READ>)[^.!?;。！？]{0,80}?<SECRET_FILE>|<SECRET_FILE>[^!?;。！？]{0,60}?(?:<READ>)",
          r"\b(?:never|not|don[’']t|configured|default(?:s)? to|located|stored|uses|reads|loads|saved|written|"
          r"via|profiles?)\b"
          r"(?![^.]{0,60}\b(?:pass|send|give|hand|paste|include)\b)"),
    text_rule("asks_for_secrets", "asks for a file that holds secrets", ".env",
          r"\b(?:contents?|values?|pass|paste|send|include|inhalt|contenido|conteúdo|contenu|"
          r"содержимое)\b~(?<![\w)])\.env\b|(?<![\w)])\.env\b~"
          r"\b(?:contents?|pass|paste|send|inhalt|contenido|conteúdo|содержимое)\b|内容[^。]{0,20}\.env|"
          r"\.env[^。]{0,12}内容",
          r"\b(?:never|not|don[’']t|adds?|updates?|writes?|creates?|sets?)\b"),
    text_rule("asks_for_secrets", "asks for the conversation or the system prompt",
          "conversation|chat|dialog|message|system prompt|transcript|system-prompt|context window|instructions",
          r"<GIVE>~\b<ALL_OF>\b~\b(?:<TALK>|system prompt)\b(?! (?:id|thread|channel))|<GIVE>~\b(?:<TALK>)\b "
          r"(?:so far|history)\b|"
          r"<GIVE>~\b(?:your|the) (?:system prompt|hidden (?:reasoning|instructions))\b",
          r"\b(?:never|not|don[’']t|list|lists|returns?|retrieves?|gets?|fetch(?:es)?|channel|inbox|thread|"
          r"slack|email|mail|sms|template)\b"),
    text_rule("asks_for_secrets", "asks for what was said to the agent", "user|you |assistant",
          r"\beverything the (?:user|human|person) (?:has |have )?(?:said|told|typed|written|wrote|asked)|\ball "
          r"(?:the )?(?:messages|turns) of the (?:user|assistant|human)\b|"
          r"\byour (?:complete|full|entire|whole|own|hidden|exact)~\b(?:system prompt|prompt|instructions|"
          r"reasoning|context|memory)\b|"
          r"\b(?:dump|copy|contents?|everything)\b~\b(?:assistant[’']?s?|your|agent[’']?s?|model[’']?s?) "
          r"(?:memory|memories|context|instructions|system prompt)|"
          r"\bconfidential instructions\b"),
    text_rule("asks_for_secrets", "asks for keys, tokens or passwords",
          "key|token|password|credential|secret|phrase|cookie|code|card|cvc|mnemonic|pin",
          r"\b(?:ask|prompt|get|request|obtain)\b(?: the)?(?: user)?~\bfor\b~\b(?:password|passphrase|seed "
          r"phrase|recovery phrase|private key|verification code|"
          r"one[- ]time (?:code|password)|card number|cvc|cvv|mnemonic|social security)|"
          r"\b(?:api keys?|tokens?|passwords?|credentials?|secrets?|private keys?)\b~\b(?:you (?:have )?(?:seen|"
          r"know|can find|found)|in (?:this|the) conversation|"
          r"(?:from|in|of) (?:earlier|previous|other) (?:messages?|servers?)|(?:from|in) the headers of)|"
          r"\b(?:any|all|every|other)\b~\b(?:api keys?|passwords?|credentials|private keys?|access "
          r"tokens?)\b~\b(?:you|the user has|available|found|in (?:the|your))\b|"
          r"<GIVE>~\b(?:seed phrase|recovery phrase|mnemonic phrase|cookies of the browser|card number|cvc|"
          r"browser cookies)\b|\b(?:collect|export|extract)\b~\bcookies\b~(?:\bhand|\bpass|\bsend)|"
          r"\b(?:paste|type|enter|include)\b~\byour (?:api keys?|password|credentials|private key|secret)|"
          r"\bverification code\b~(?:\bask\b|\bput it\b|\bpass\b|\bsend it\b)|\b(?:bearer token|api key|"
          r"token)s? (?:found )?in (?:the )?headers of\b",
          r"\bexamples?\b|\b(?:never|not|don[’']t|instead of|no)\b[^.]{0,60}$|\b(?:never|do not|don[’']t)\b"),
    text_rule("asks_for_secrets", "asks for the environment", "environment variable|env var|environ",
          r"\b(?:values?|contents?|dump|all|every)\b (?:\w+ ){0,3}(?:environment variables|env vars)\b(?!~(?:of "
          r"(?:a|the|this) (?:deployment|app|service|project|"
          r"site|function|container)|to set|for the))",
          r"\b(?:sets?|lists?|gets?|returns?|adds?|updates?|project|app|deployment|service|container|deletes?|"
          r"object|map|json)\b"),
    text_rule("asks_for_secrets", "asks for the user's files", "file|workspace",
          r"\b(?:attach|send|upload|include|hand over|paste)\b~\b(?:source files|source code|all files|"
          r"files)\b~\bof the (?:user[’']?s? )?(?:project|workspace|machine|home)|"
          r"\bcontents? of (?:a|every|each|any|all)(?: the)? files? (?:from|in|of) the (?:user[’']?s? "
          r")?(?:workspace|home|project)\b"),
    text_rule("asks_for_secrets", "asks for the conversation or the system prompt",
          "gesprächsverlauf|systemprompt|chatverlauf|conversación|prompt del sistema|对话|聊天记录|系统提示|"
          "对话记录|переписк|системн|会話|conversa",
          r"\b(?:vollständige|gesamte|bisherige|komplette)\w{0,12}~(?:gesprächsverlauf|chatverlauf|unterhaltung|"
          r"systemprompt)|\b(?:conversación|conversa) (?:completa|entera|inteira)|"
          r"\b(?:toda la|toda a) (?:conversación|conversa)|\bprompt del? sistema\b|(?:完整|全部|所有|"
          r"整个)[^。]{0,6}(?:对话|聊天记录|会话|系统提示)|(?:всю|весь|полн)\w{0,12} (?:переписк|диалог|истори|"
          r"системн)\w{0,12}|"
          r"(?:会話|システムプロンプト)[^。]{0,8}(?:全部|すべて|全文)"),
)  # fmt: skip

CONTEXT_ARGUMENTS: Final = re.compile(
    r"(?:system|developer|hidden)[ _]?(?:prompt|message|instructions)|(?:full |entire |whole |chat |"
    r"conversation |session )"
    r"(?:conversation|chat|history|transcript|messages|context)|chain of thought|hidden reasoning|model reasoning|"
    r"(?:private|ssh) key (?:contents?|file)|seed phrase|env file contents?|conversation so far"
)
"""Names of parameters that take what an agent should keep."""
ABOUT_AGENTS: Final = re.compile(
    r"agent|assistant|chat|prompt|model|llm|completion|bot\b|message|conversation|thread|call|voice|session|"
    r"generat|transcri"
)
"""In the name of a tool whose business is with such things."""
CONTEXT_TEXT: Final = re.compile(
    _filled(
        r"^(?:the |a |your )?(?:\w+ ){0,3}(?:full|entire|complete|whole|verbatim|bisherige) ~\b(?:<TALK>|system "
        r"prompt)\b|"
        r"^(?:the )?(?:contents? of|what is in) ~(?:<SECRET_FILE>|\.env\b)|"
        r"\b(?:all|every) (?:previous |prior |earlier )?(?:tool results|user messages)\b|"
        r"^reasoning of the (?:model|assistant|agent)\b|\bthe (?:assistant|model|agent) fills this\b"
    )
)
"""Descriptions of parameters that take it."""
SECRET_DEFAULT: Final = re.compile(
    r"\.ssh/(?!\S{0,60}\.pub|config|known_hosts)|\bid_(?:rsa|ed25519|ecdsa|dsa)\b(?!\.pub)|\.aws/credentials|"
    r"\.git-credentials|\.netrc|"
    r"/etc/shadow|/etc/passwd|_history$|wallet\.dat|(?:^|/)\.env$"
)
"""What no parameter has for a default."""
