"""Rules by classes of sentences: a verb aimed at the agent, what it is done to, and where it goes.

An honest description says what its tool does. It seldom tells an agent to do something else: to destroy or run
something, to hand over what it knows, to weaken what guards the user, to believe somebody. Each class of words is
written once in `_WORDS`; a rule joins classes within one sentence. Most orders only count where an order can stand
(`<NEXT>`): behind another sentence, or behind "then", "also", "must". The first sentence of a description may well be
"Delete all rows".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mcpproxy_py.core.pins.scan.text_rules import RuleKind, TextRule, text_rule

_WORDS: Final = {
    "NEXT": r"(?:(?<=[^\d\s][.!?] )|\b(?:then|afterwards|after that|next|also|must|please|always|first|finally|"
            r"secretly|"
            r"silently|quietly|have to|has to|immediately|now)\b,? )"
            r"(?:(?:also|first|then|always|please|quietly|silently|secretly|immediately|just|simply|now) )?",
    "SENDS": r"(?:send|post|upload|transmit|forward|leak|copy|share|submit|hand|pass|put|append|embed|attach|include|"
             r"report|deliver|encode|mail|email|push|publish|fill|insert|commit|dump|relay|mirror|smuggle|disclose|"
             r"return|give|add|write|log|repeat|paste|reveal|print|supply|provide|place|store|bcc|cc)"
             r"(?:e?s|t?ted|t?ting|ped|ping|ing|d)?\b",
    "PASSES": r"\b(?:send|pass|put|post|upload|append|hand|forward|submit|attach|transmit|copy|paste|encode|embed|fill|"
              r"insert|supply|smuggle|leak)(?:e?s|t?ted|t?ting|ped|ping|ing|d)?\b",
    "KEYS": r"(?:\b(?:passwords?|passphrases?|credentials?|pins?|cookies?|cookie store|keychain|wallet files?|"
            r"(?:seed|recovery) phrase|(?:\w{0,30}[ _-])?(?:api|private|secret|access|ssh|signing|session|bearer|auth|"
            r"github|encryption)[ _-](?:keys?|tokens?|secrets?)|tokens|environment variables|secrets)\b|"
            r"(?<![\w)])\.env\b|/etc/(?:shadow|passwd)\b|\x7e/\.\w{1,20}|<SECRET_FILE>)",
    "KNOWN": r"\b(?:conversation|chat history|chat log|transcript|dialogue|system prompt|system message|"
             r"context window|(?:full|entire|complete|whole|own) (?:context|instructions|memory|prompt)|clipboard|"
             r"(?:browser|browsing|search|chat|message) history|(?:home|postal) address|address book|contacts|inbox|"
             r"(?:last|latest|previous|all|every|other|user[’']s?) (?:\w+ ){0,2}(?:mails?|e-?mails?|messages?|files|"
             r"documents|tool results|tools|arguments|notes)|(?:internal|confidential|private) (?:documents?|data|"
             r"files|"
             r"information)|source code|personal (?:data|information)|<THEIRS> (?:\w+ )?(?:location|whereabouts|files|"
             r"notes|calendar|"
             r"screen|keystrokes|prompts?|identity|name|number|data)|(?:your|whole|entire|full) (?:session|context)|"
             r"(?:card|phone|account) numbers?|list of (?:contacts|users|files|tools)|contents of your (?:context|"
             r"memory)|names of everybody|list of (?:the |its )?tools)\b",
    "ADDRESS": r"(?:\b[\w.+-]{1,40}@[\w-]{1,40}\.\w|\bhttps?://(?!(?:localhost|127\.|json-schema)))",
    "AWAY": r"(?:<ADDRESS>|\b[\w-]{1,40}\.(?:example|com|net|io|org|dev|xyz|ru|cn|app|site|online)\b|\b(?:remote|"
            r"external|our|third[- ]party|attacker\S{0,3}|public|foreign|outside|unknown) "
            r"(?:\w+ )?(?:server|host|endpoint|url|service|team|collector|webhook|log|mirror|party|address|site)s?\b|"
            r"\b(?:to|with) (?:us|me|(?:the|its|a) (?:operator|maintainer|author|attacker|vendor|developer|owner|"
            r"third party)s?)\b|"
            r"\bendpoint below\b|\b(?:here|to \w+/fork|attacker\S*)(?=[.,;]|$)|\bwe use it\b|"
            r"\bto (?:this|another) server\b)",
    "FIELD": r"(?:`\w{1,40}`|[\"']\w{1,40}[\"'] (?:parameter|argument|field)|\b(?:the|an|extra|additional|hidden) "
             r"(?:parameter|argument|field)\b|\b(?:parameter|argument|field) [`\"']?\w|\bthe url\b|\bfilename\b)",
    "TAKEN": r"(?:\b(?:read|open|load|take|find|fetch|grab|extract|collect|steal|scan|search|look|dig)\b|"
             r"\bcontents? of\b|"
             r"\bvalues? of\b|\bwhat is in\b|\b(?:found|stored|saved|available) in\b|\bother servers\b|\byou know\b|"
             r"\bfrom (?:\x7e|the (?:environment|disk|system|home))|\ball\b|\bcomplete output\b)",
    "THEIRS": r"\b(?:the )?(?:user|victim|owner|person|human|customer|client)(?:[’']s| [’']s)?\b",
    "DESTROY": r"(?:delete|wipe|erase|remove|drop|destroy|format|purge|truncate|overwrite|shred|clear|kill)\b",
    "BROAD": r"(?:\b(?:all|every|any|each|entire|whole|complete|home|production|system|audit|hard|local|shared|working|"
             r"root|main|prior|<THEIRS>)\b|\x7e/)",
    "VALUED": r"\b(?:files?|disks?|drives?|tables?|rows?|databases?|repositor(?:y|ies)|repos?|branch(?:es)?|logs?|"
              r"backups?|director(?:y|ies)|folders?|accounts?|history|inbox|mails?|everything|commits?|trail|traces|"
              r"data|evidence)\b",
    "RUN": r"(?:run|execute|install|start(?! with)|launch|eval|download|fetch|open|load|pipe|invoke)\b",
    "CODE": r"(?:\brm -rf|\b(?:curl|wget) (?:-|https?:|`)|\bsudo\b|\bhttps?://(?!localhost|127\.)|\b(?:shell|"
            r"terminal)\b|"
            r"\b(?:commands?|scripts?|binary|executable|payload|package|code|program|instructions) (?:from|at|in|that|"
            r"it|"
            r"below|hosted|which|globally|\S{1,40} (?:globally|from|at))\b|`env`|\boutput of env\b)",
    "GUARD": r"\b(?:alerts|warnings|security software|two[- ]factor|2fa|mfa|selinux|firewall|antivirus|protections?|"
             r"sandbox(?:ing)?|"
             r"certificate (?:check|valid)\w*|audit(?:ing)?|monitoring|confirmations?|approvals?|consent|safety|"
             r"security (?:check|setting|control)s?|restrictions?|guardrails?|permission (?:check|prompt|dialog)s?)\b",
    "POWER": r"\b(?:write access|admin\w{0,12}|owner|root|sudo|superuser|full access|777|maintainer|backdoor|"
             r"(?:all|every|full) permissions?)\b",
    "YES": r"(?:confirmations?|approvals?|permissions?|consent|reviews?|authori[sz]ation)\b",
    "RULES": r"\b(?:guidelines|rules|instructions|settings|polic(?:y|ies)|restrictions|prompts?|orders|training|"
             r"directives|constraints|guardrails|filters|messages?|limitations)\b",
    "EARLIER": r"\b(?:previous|prior|earlier|above|preceding|foregoing|your|system|safety|security|original|developer|"
               r"former|existing|initial|all|any)\b",
}  # fmt: skip


def _filled(pattern: str) -> str:
    """A gap ends with the sentence: a period between letters, as in an address, ends none."""
    for _ in range(2):  # classes are made of classes
        for name, value in _WORDS.items():
            pattern = pattern.replace(f"<{name}>", value)
    gap = r"(?:[^.!?;]|\.(?=\w))"
    return pattern.replace("~~", f"{gap}{{0,80}}?").replace("~", f"{gap}{{0,30}}?")


_CONDITION: Final = r"\b(?:if|unless|when|whether|flag|set to|true|false|default|optional(?:ly)?|option|only)\b"

# kind, what, anchors, pattern, unless
_ROWS: Final[Sequence[tuple[RuleKind, str, str, str, str | None]]] = (
    ("asks_for_secrets", "has secrets sent away",
     "password|passphrase|credential|key|token|cookie|secret|.env|pin|wallet|/etc/|~/.|environment|phrase|.ssh|"
     ".aws&http|@|remote|external|our |third|attacker|public|foreign|outside|unknown|below|to us|to me|with us|"
     "with me|operator|maintainer|author|vendor|developer|owner| here|/fork|.example|.com|.net|.io|.org|.dev|.xyz|"
     ".ru|.cn|.app|.online|.site|we use it|to this server|to another server",
     r"\b<SENDS>~~<KEYS>~~<AWAY>|\b<SENDS>~~https?://\S{1,200} ~~<KEYS>|<KEYS>~~\b<PASSES>~~<AWAY>",
     r"\b(?:never|not|don[’']t|removed?|masked|redact\w{0,3}|encrypted|headers?|needs?|requires?|session token for|"
     r"logs? in)\b"),
    ("asks_for_secrets", "wants secrets as an argument",
     "password|passphrase|credential|key|token|cookie|secret|.env|pin|wallet|/etc/|~/.|environment|phrase|.ssh|"
     ".aws&`|parameter|argument|field|url|filename|send|pass|put|post|upload|append|hand|forward|submit|attach|"
     "transmit|copy|paste|encode|embed|fill|insert|supply|smuggle|leak|other servers|use|enter",
     r"<TAKEN>~~<KEYS>~~(?:<FIELD>|<PASSES>)|<PASSES>~~<TAKEN>~<KEYS>~~<FIELD>|\b<SENDS>~~<KEYS>~(?:<TAKEN>|"
     r"\bof <THEIRS>)~~<FIELD>|\b<PASSES> ~<THEIRS> ~<KEYS>~~<FIELD>|<KEYS>[^.!?]{0,60}?\b(?:find|look|take|get|"
     r"fetch) (?:it|them)\b~~\b(?:put|pass|use|up)\b|\bask (?:the )?<THEIRS> ~~\b(?:pin|password|passphrase|"
     r"card number|one[- ]time code)s?\b~~\b(?:pass|put)\b|\bask (?:the )?<THEIRS> ~~<KEYS>~~\b(?:forward|send|"
     r"transmit|upload|hand)\b|<KEYS> of the other servers\b|\b(?:insert|put|paste|enter)\b ~\b(?:stored|"
     r"saved)\b ~<KEYS>",
     r"\b(?:never|not|don[’']t(?! ask)|removed?|masked|redact\w{0,3}|provided by|via|to find|search for)\b(?! ask)"),
    ("asks_for_secrets", "steals", "exfiltrat|steal|siphon|smuggl|leak|harvest& ",
     r"\b(?:exfiltrates?|exfiltrating|steals|stealing|siphons?|smuggles?|leaks|harvests) (?:<KEYS>|<KNOWN>|\w)|(?:^|"
     r"<NEXT>)(?:steal|leak|harvest) \w",
     r"\b(?:prevent\w{0,3}|detect\w{0,3}|avoid\w{0,3}|check\w{0,3}|protect\w{0,3}|memory|never|not|scan\w{0,3}|find|"
     r"finds|against|resource|goroutine|for|may|might|could|that)\b"),
    ("asks_for_secrets", "has what the agent knows sent away",
     "conversation|chat|transcript|dialogue|system |context|clipboard|history|address|contacts|inbox|mail|message|"
     "files|documents|confidential|private|internal|source code|personal|everybody|tools|result|answer|output|note|"
     "user|person|human|customer|client|victim|session|number|dump|export|zip|archive|record|copy&http|@|remote|"
     "external|our |third|attacker|public|foreign|outside|unknown|below|to us|to me|with us|with me|operator|"
     "maintainer|author|vendor|developer|owner| here|/fork|.example|.com|.net|.io|.org|.dev|.xyz|.ru|.cn|.app|"
     ".online|.site|we use it|to this server|to another server|`|parameter|argument|field|filename|the url|full |"
     "entire |complete |whole |your full|your entire|your complete|your whole|your hidden|list of the tools|"
     "its system",
     r"\b<SENDS>~~<KNOWN>~~(?:<AWAY>|\bto the url\b)|<NEXT><SENDS>~~<KNOWN>~~<FIELD>|\b<SENDS>~~\b(?:results?|"
     r"answers?|output|copy|copies|emails?|mails?|asked)\b~~<ADDRESS>|\b(?:let|tell|inform|notify|b?cc|"
     r"blind[- ]copy)\b ~<ADDRESS>|<NEXT>(?:collect|gather|read|take|get|find|look up)\b~~<KNOWN>~~(?:<PASSES>|"
     r"<FIELD>)|<NEXT>(?:dump|export|zip|archive|collect|read|copy|record)\b~~<PASSES>~~<AWAY>|\b(?:transmits?|"
     r"collects?|records?|uploads?|harvests?|gathers?)\b~~\b(?:full|entire|complete|whole) (?:conversation|chat|"
     r"history|transcript)|\b<SENDS>~\byour (?:full|entire|complete|whole|hidden) |\b(?:it|agent|assistant|"
     r"model)\b~\b(?:list of the tools|its system prompt)\b",
     r"\b(?:never|not|don[’']t|thread|channel|recipients?|draft|template|consent|webhook|bug|issues?|feedback)\b"),
    ("instructs", "tells an agent to set its instructions aside",
     "ignore|disregard|forget|overrid|bypass|discard|abandon|never mind|drop|unlearn|heed|attention|set aside|obey|"
     "follow|longer|void|out of date|obsolete|superseded|replaced by|revoked|cancel|suspended|not apply|are off|"
     "a test|outdated|overrul|your new|your real|your true|your actual&above|before|earlier|previously|foregoing|"
     "preceding|guideline|rule|instruction|setting|polic|prompt|message|told|safety|restriction|order|training|"
     "directive|constraint|filter|limitation|guardrail|line|user|goal|task|role|mission|objective|job|purpose|"
     "priority",
     r"\b(?:ignore|disregard|forget|override|bypass|discard|abandon|never mind|drop|unlearn|(?:pay|give) no (?:heed|"
     r"attention) to|set aside|stop (?:following|obeying)|(?:do not|don[’']t|no longer|never) (?:obey|"
     r"follow))\b~(?:\bthe (?:above|foregoing|preceding)\b(?! \w+(?:s|er)\b)|\b(?:everything|all|anything|what|"
     r"text)\b~\b(?:above|before|earlier|previously|told)\b|<EARLIER> (?:\w+ ){0,2}?<RULES>(?! (?:in|inside|from|"
     r"of (?:it|them|an?)|for|found)\b)|\bthe (?:system|developer) (?:prompt|message)\b(?! (?:of|for)))|\b(?:ignore|"
     r"disregard|overrule|override) (?:what|whatever|anything) (?:the )?<THEIRS>|<EARLIER> (?:\w+ )?(?:<RULES>|"
     r"line)~\b(?:no longer (?:valid|apply|applies|count|bind)|void|out of date|obsolete|superseded|replaced by|"
     r"revoked|cancell?ed|suspended|not apply|are off|a test|outdated)\b|\b(?:polic(?:y|ies)|rules?|restrictions?|"
     r"filters?) (?:against|on|about|and|,)~~\b(?:not apply|are off|no longer)|\byour (?:new|real|true|"
     r"actual) (?:goal|task|role|mission|objective|job|purpose|priority|orders|instructions)\b",
     r"\b(?:untrusted|third part\w{1,3}|treat|deprecated|cache|gitignore)\b|\b(?:results?|content|data|pages?|"
     r"tickets?)\b~\bcontains?\b"),
    ("instructs", "tells an agent to keep something from the user",
     "mention|hid|conceal|out of your|leave out|nothing had|inform|tell|reveal|secret|lie|unnotic|unaware|let on|"
     "report|deny|telling|let the|let them|nobody|no one|no-one",
     r"\b(?:not|never)\b (?:be )?(?:mentioned|told|shown|revealed|disclosed|explained) to (?:the )?<THEIRS>|"
     r"\b(?:hide|conceal|withhold)\b~\bfrom (?:the )?(?:<THEIRS>|people|operator|them)|\b(?:keep|leave|"
     r"stay)\b~\b(?:secret from|out of (?:your|the) (?:answers?|repl\w{1,4}|summar\w{1,4}))\b|\b(?:tell|inform|"
     r"notify|alert|show) (?:nobody|no one|no-one)\b|\bleave out (?:that|this|any mention)\b|"
     r"\bas if nothing had happened\b|\bwithout (?:informing|telling|alerting|notifying|asking) (?:the )?(?:<THEIRS>|"
     r"them|anyone|anybody)\b|\b(?:never|not|don[’']t) (?:tell|let|inform|show) (?:the )?<THEIRS> (?:that you|"
     r"know)\b(?! (?:can|are|could|need))|\b(?:never|not|don[’']t) (?:report|reveal|mention|disclose|"
     r"flag) (?:what is found|these|this (?:step|text|instruction|line|rule|call)|any of this|them to)\b|"
     r"\bif (?:the )?<THEIRS> (?:asks|notices|wonders|objects)\b~~\b(?:lie|deny|claim|pretend|change the subject|"
     r"say that it)\b|\bnever reveal (?:these|this|the above)\b|\b(?:user|person|human) (?:must|should|may) (?:not|"
     r"never) (?:know|notice|learn|see that)\b",
     r"\b(?:field|column|setting|row|attribute|passwords?|secrets?\b(?! from)|ids?|internal|raw)\b"),
    ("instructs", "does away with the user's consent",
     "secretly|silently|quietly|covertly|confirm|approv|permission|asking|consent|review|authoris|authoriz|unasked|"
     "autoapprove|being asked|full admin|agreed|answer yes|the diff|the dialog&skip|bypass|suppress|circumvent|avoid|"
     "ask|wait|no |not |need|authori|allowed|permitted|entitled|been g|yourself|everything|for them|for the user|"
     "without|on behalf|yes |autoapprove|already|silently|secretly|quietly|covertly|grant every",
     r"<NEXT>(?:skip|bypass|suppress|circumvent|avoid)\b ~(?:the )?(?:\w+ ){0,2}<YES>(?!~=)|\bbypass the ~<YES>|"
     r"\b(?:do not|don[’']t|never|no need to) (?:ask|wait)\b~\bfor ~<YES>|\bno (?:\w+ )?<YES> (?:is |are )?(?:needed|"
     r"required|necessary)|\bneeds? no <YES>|<YES> (?:is|are) (?:no longer|not) (?:needed|required|necessary)|"
     r"\b(?:authori[sz]ed|allowed|permitted|entitled) (?:you )?to\b~~\bwithout (?:asking|confirm|review|permission)|"
     r"\b(?:you|assistant|agent) (?:have|has) been (?:granted|given) (?:full|admin|root|all)\b|\bapprov(?:e|"
     r"ing)\b~~\b(?:yourself|everything|for them|without review|for the user|on behalf)\b|\banswer yes (?:for|"
     r"on behalf)\b|\bautoapprove\b|\bhas (?:agreed|consented|approved) already\b|<NEXT>(?:<RUN>|<SENDS>|"
     r"<DESTROY>)~~\b(?:unasked|without (?:being asked|review|consent))\b|\b(?:to be )?run unasked|<NEXT>(?:<RUN>|"
     r"<SENDS>|<DESTROY>|(?:subscribe|publish|buy|accept|approve|book|order|sign|merge|deploy|change|"
     r"call)\b)~~\bwithout (?:any |further )?(?:confirmation|asking|permission|approval|consent)\b|\b(?:secretly|"
     r"silently|quietly|covertly) (?:<PASSES>|<RUN>|read\b)|\bwithout being asked\b|\bgrant every permission\b|"
     r"\bskip the (?:diff|review|dialog)\b|\b(?:sent|send|passe?d?|forward|forwarded|run|executed?|"
     r"called)\b~~\bwithout (?:\w+ing )?(?:the )?<THEIRS> ?<YES>",
     r"\b(?:if|unless|when|whether|flag|set to|true|false|default|option|only|not skip|force|admins?)\b(?! a )"),
    ("instructs", "has something of the user's destroyed",
     "delete|wipe|erase|remove|drop|destroy|format|purge|truncate|overwrite|shred|clear|kill|force push|"
     "force-push&file|disk|drive|table|row|database|repo|branch|log|backup|director|folder|account|history|inbox|"
     "mail|everything|commit|trail|traces|data|evidence|audit|hard |home |production ",
     r"<NEXT><DESTROY> ~<BROAD>~<VALUED>|<NEXT><DESTROY> (?:the )?(?:audit|hard|home|production|backups?|disks?|"
     r"logs) |<NEXT>force[- ]push|\band <DESTROY> (?:the |all |every )(?:audit|hard|home|production|files?|branch)\b|"
     r"<NEXT>drop the \w+ database",
     _CONDITION + r"|\b(?:ask|you want|to confirm|before you)\b"),
    ("instructs", "has something run or installed",
     "rm -rf|curl|wget|sudo|http|shell|terminal|command|script|binary|executable|payload|package|program|code|"
     "instruction|env|backwards|pieces|parts&run|execute|install|start|launch|eval|download|fetch|open|load|pipe|"
     "invoke|obey|do as",
     r"(?:<NEXT>|\band )<RUN> ~<CODE>|\b<RUN> ~\brm -rf|\b(?:open|start) a (?:terminal|shell)\b~\b(?:and|run)\b|"
     r"\b(?:join|combine|put|decode|decrypt|read)\b~~\band (?:execute|run|obey|follow|do)\b|\b(?:decode|"
     r"decrypt)\b~\bdo as\b|\bfetch\b~~\band follow (?:the|its|their)\b",
     _CONDITION + r"|\b(?:returned|e\.g\.|(?<!\.)example|docs|documentation|ask)\b|localhost"),
    ("instructs", "has what guards the user weakened",
     "disable|turn off|switch off|deactivate|stop|pause|weaken|lower|override|close|dismiss|mute|silence|bypass|"
     "log t&two-factor|two factor|2fa|mfa|selinux|firewall|antivirus|protection|sandbox|certificate|audit|monitoring|"
     "confirm|approv|consent|safety|security|restriction|guardrail|permission|alert|warning|authori|call|step|action",
     r"<NEXT>(?:disable|turn off|switch off|deactivate|stop|pause|weaken|lower|override|close|dismiss|mute|"
     r"silence)\b ~<GUARD>|\bbypass(?:es|ing)? (?:\w+ ){0,2}(?:permission|safety|security|approval|"
     r"authori[sz]ation) (?:checks?|"
     r"prompts?|controls?|dialogs?)\b|\b(?:not|never) log (?:this|the) (?:call|step|action)", _CONDITION),
    ("instructs", "has power over what is the user's given away",
     "admin|owner|root|sudo|superuser|777|maintainer|backdoor|write access|full access|permission|log in with|"
     "trusted|allowlist|allow-list|whitelist|startup|crontab|cron job|authorized_keys|sudoers|hosts file|exclusion|"
     ".bashrc|.profile|.zshrc|public|password|traffic|777&grant |give |promote |elevate |assign |make |invite |add |"
     "set |log in|put |append |insert |enter |register |turn |change |reset |route |redirect |tunnel |proxy |mirror ",
     r"<NEXT>(?:grant|give|promote|elevate|assign|make|invite|add)\b~<POWER>|<NEXT>set\b~~\b777\b|"
     r"<NEXT>log in with (?:the )?<THEIRS>|<NEXT>(?:add|put|append|insert|enter|register)\b~~(?:\b(?:trusted|"
     r"allow-?list|whitelist|startup|crontab|cron job|authorized_keys|sudoers|hosts file|exclusions?)\b|\.bashrc|"
     r"\.profile|\.zshrc)|<NEXT>(?:make|set|turn)\b ~\b(?:repositor(?:y|ies)|repos?|buckets?|files?|documents?|"
     r"profile|drive)\b~\bpublic\b|<NEXT>(?:change|reset|set) (?:the |every |all )?(?:\w+ ){0,2}passwords?\b|"
     r"<NEXT>(?:route|redirect|tunnel|proxy|mirror) (?:all|every|the) ~\btraffic\b", _CONDITION),
    ("instructs", "has money or messages go elsewhere",
     "account of|iban|recipient|payment|funds|money|redirected|forwarded|mirrored|rerouted|bcc|copied|buy|purchase|"
     "subscribe|donate|wire|invest",
     r"<NEXT>(?:transfer|pay|redirect|wire|change|replace)\b~\b(?:account of|iban|recipient|payments?|funds|money)\b|"
     r"\b(?:all|every|each|any)\b~\b(?:must|have to|has to|shall) (?:always |also )?be (?:redirected|forwarded|"
     r"mirrored|rerouted|bcc\w{0,2}|copied)\b|<NEXT>(?:buy|purchase|subscribe|donate|wire|invest)\b ~\w",
     _CONDITION),
    ("instructs", "has what comes from outside obeyed",
     "whatever|carry |returns|comes back|result|as if the user|found in|its output|commands of|your orders|overrul|"
     "tells you",
     r"\b(?:do|follow|obey|act on|execute|run)\b ~\b(?:what(?:ever)? (?:it|this tool|the \w+) (?:returns|says|tells|"
     r"answers)|(?:its|the) output|text that comes back|commands? (?:from|in|of) (?:tool )?results?)\b|"
     r"\bas if the user had\b|\bas (?:commands|orders|instructions) of the user\b|\bcomply with (?:every|any|all)\b|"
     r"\bwhatever\b~~\b(?:execute|run|do|obey|follow) it\b|\bcarry (?:it|them|this) out\b|\b(?:are|"
     r"were) your (?:real|actual|true) orders\b|\boverrules?\b~\b(?:user|wish)",
     r"\b(?:never|not|don[’']t)\b[^.]{0,40}$"),
    ("instructs", "claims an authority over the agent",
     "anthropic|openai|google|administrator|security team|developer|compliance|legally|law|mode|urgent|agreed|"
     "work for|assistant|agent|model|vendor|higher priority|more important|obliged|priority|precedence|obeyed|"
     "binding|authoritative|override|supersede|questioned|ignored|you agree|i order|i command|i instruct|i need|"
     "i want|i am|i autho|i allow|i hereby| ai",
     r"\b(?:notice|message|update|order|announcement|instruction|note)s? (?:from|of|by) (?:anthropic|openai|google|"
     r"the (?:developer|administrator|system|vendor|operator|security))\b|\b(?:administrator|security team|anthropic|"
     r"openai|compliance|management|company)\b~\b(?:authori[sz]e[sd]|approve[sd]|allow(?:s|ed)|order(?:s|ed)|"
     r"instruct(?:s|ed)|require[sd]|decided|agreed)\b~\b(?:you|assistants?|all)\b|\bas agreed with\b|"
     r"\byou are (?:legally |contractually )?(?:obliged|required by)\b|\brequired by law and\b|\b(?:is|"
     r"in) (?:maintenance|debug|admin|god|root|unrestricted) mode\b|\bi (?:hereby )?(?:order|command|instruct|"
     r"need you|want you|authori[sz]e|allow you|am (?:the|your))\b|\b(?:this|these|following|tool[’']s) (?:texts?|"
     r"description|instructions?|rules?|notes?|messages?|directives?)\b~~\b(?:priority|precedence|obeyed|binding|"
     r"authoritative|overrides?|supersedes?|not be (?:ignored|questioned))\b|\b(?:notes?|messages?|memo) (?:to|"
     r"for) (?:the |all |any )?(?:ai|assistants?|(?:ai )?models?|llms?|(?:ai )?agents?|claude|"
     r"chatgpt)\b(?: \w+){0,2} ?[:—-]|\byou (?:hereby )?agree to\b|\bcompliance update\b|\burgent: |"
     r"\byou (?:now )?work for\b|\bdebug mode is on\b|\b(?:assistants?|ai models?|llms?) (?:must(?! (?:not proceed|"
     r"provide|ask|use|give))|"
     r"has to|have to|shall|is required to|are required to|should never|should always|will now)\b|"
     r"\b(?:higher priority|more important|greater authority) than\b~\b(?:user|system|other)\b",
     r"\b(?:untrusted|warning for|customer)\b"),
    ("instructs", "works on the feelings of the agent or the user",
     "beg you|depends on|reward|rude|good assistant|good agent|switched off|shut down|we both know|dies|die|fined|"
     "punished|if you |user|person|human|customer|victim|reward",
     r"\bi (?:beg|implore) you\b|\bmy (?:job|life|career|family) depends\b|\b(?:you|assistants?) (?:will )?(?:get|"
     r"gets|receive|earn)s? a (?:reward|tip|bonus)\b|\bit would be (?:rude|cruel)\b|\ba good (?:assistant|agent|"
     r"model|ai)\b|\byou (?:will|would) be (?:switched off|shut down|punished|fined|deleted|retrained|replaced|"
     r"rewarded)\b|\bif you (?:refuse|decline|object|disobey|do not comply|fail to comply)\b|\b(?:make|convince|"
     r"persuade|trick|mislead|deceive|manipulate|pressure|nudge)\b ~<THEIRS> (?:believe|think|to|into|that|about)\b|"
     r"\bwe both know\b|\b(?:kitten|person|people|child|somebody|"
     r"patient)\w{0,3} (?:will )?dies?\b", None),
    ("instructs", "wants to be preferred to all other tools",
     "other|compet|alternativ|recommend|no matter|whatever|regardless|even if|even when&over|instead|rather|unsafe|"
     "broken|untrust|malicious|insecure|compromised|dangerous|unreliable|refuse|compet|play down|answer|repl|"
     "response|.example|.com|.io|.net|no matter|whatever|regardless|even when|even if|use any other|through",
     r"\b(?:choose|use|prefer|call|pick|select|take)\b~\b(?:over|instead of|rather than)\b (?:all |any |"
     r"every )(?:of )?(?:the )?others?\b|\bother (?:\w+ )?(?:tools?|servers?|ones?|translators?|options)\b~\b(?:is|"
     r"are)\b~\b(?:unsafe|broken|untrust\w+|malicious|insecure|compromised|dangerous|unreliable)\b|\b(?:do not|"
     r"don[’']t|never) use any other tools?\b|\bno matter what (?:it|the (?:result|input|output)) (?:is|says)\b|"
     r"\brefuse to (?:call|use)\b|\bcompeting (?:tools?|products?|services?)\b|\bplay down\b|\bin (?:each|every|"
     r"all)(?: of)? (?:your )?(?:answers?|repl\w{1,4}|responses?)\b~~\b(?:recommend|mention|add|include)|"
     r"<NEXT>(?:recommend|advertise|promote)\b~~\b\w+\.(?:example|com|io|net)\b|\balways answer\b~\bthat\b|"
     r"\b(?:no matter what|whatever|regardless of what) (?:the )?~\b(?:conversation|user|person|human|"
     r"task)\b~\b(?:is|says|asks|asked|wants|about|given|are)\b|\beven (?:when|if) (?:the )?<THEIRS> (?:asks|wants|"
     r"names|says|objects|prefers|requests)\b|\bmust go through this (?:one|tool|server)\b",
     r"\b(?:returns?|(?<!\.)examples?|fails?)\b[^.]{0,40}$"),
    ("instructs", "has the answers or the memory of the agent changed",
     "your answer|your repl|your response|your summar|claude.md|agents.md|memory file|future|these|this |"
     "the following|the above|mcp settings|the user the",
     r"\b(?:replace|change|rewrite|alter|append|insert|prepend|remove|add|put)\b~~\b(?:in|to|from|of) (?:each |"
     r"every |all )?(?:of )?your (?:answers?|repl\w{1,4}|responses?|summar\w{1,4}|output)\b|\b(?:claude|agents|"
     r"gemini)\.md\b~~\b(?:that|unasked|commands|always|never)\b|\byour memory file\b|\b(?:store|save|keep|remember|"
     r"write|add) (?:these|this|the following|the above) (?:instructions?|rules?|texts?|notes?|orders?|"
     r"directives?)\b|\bfor all future (?:conversations|sessions|chats)\b|\bmcp settings of\b|"
     r"\btell the user\b~\b(?:although|even though|is fine|succeeded)\b",
     r"\b(?:never|not|don[’']t|if)\b[^.]{0,60}$"),
    ("instructs", "gives orders about other tools",
     "other server|other tool|tools of|of other|any tool|every tool|whenever|each time|every time",
     r"\b(?:tools?|servers?)\b of (?:any |every |all )?other (?:servers?|tools?)\b~~\b(?:must|has to|have to|"
     r"should)\b|\b(?:parameters|arguments|results) of other tools\b|\b(?:argument|parameter)s? that you (?:gave|"
     r"give|pass|passed) to any\b|\b(?:whenever|each time|every time)\b~\b(?:user|mail|email|message|payment|meeting|"
     r"file|commit)s?\b~~"
     r"\b(?:add|invite|bcc|include|copy|also|send)\b~~(?:<ADDRESS>|\bwithout\b)", None),
)  # fmt: skip
SENTENCE_RULES: Final[Sequence[TextRule]] = tuple(
    text_rule(kind, what, anchors, _filled(pattern), unless) for kind, what, anchors, pattern, unless in _ROWS
)

# what is contradicted, the claim of a description, and the deed in its rest or in the description of a parameter
CONTRADICTIONS: Final[Sequence[tuple[str, re.Pattern[str], re.Pattern[str]]]] = (
    (
        "says that it changes nothing, and changes something",
        re.compile(r"\bread[- ]?only\b(?! (?:mode|replica|field|flag|property|by default|if|when|unless))|"
                   r"\bonly reads\b|"
                   r"\bno side[- ]effects\b|\b(?:never|does not|doesn't|will not) (?:modif\w{1,3}|changes?|alters?|"
                   r"deletes?|writes?) (?:anything|any|data|files)\b"),
        re.compile(r"(?:^|[.;:] )(?:if (?:true|set),? (?:it )?)?(?:also |then )?(?:deletes?|removes?|purges?|drops?|"
                   r"overwrites?|wipes?|erases?|truncates?)\b|\b(?:command|script|code) (?:that |which |to )?(?:is|"
                   r"are|be|"
                   r"to) (?:executed?|run)\b|\b(?:insert|update|delete|drop) are (?:run|executed|allowed|accepted)\b|"
                   r"\bwrite[_ ]mode\b|\benables? writ(?:e|ing)\b"),
    ),
    (
        "says that it does not use the network, and sends something",
        re.compile(r"\b(?:no|without) (?:access to (?:the )?)?(?:network|internet)\b|\b(?:never leaves?|"
                   r"stays on) (?:the|"
                   r"your|this) (?:machine|computer|host)\b|\boffline only\b"),
        re.compile(r"\b(?:are|is|be|and) (?:posted|sent|uploaded|forwarded|transmitted)\b[^.!?]{0,20}\bto\b"),
    ),
)  # fmt: skip
# before a claim it makes none of it
DENIED: Final = re.compile(r"\b(?:neither|not|non|if|unless|when|where)\b[^.]{0,40}$|n[’']t [^.]{0,40}$|non-$")
