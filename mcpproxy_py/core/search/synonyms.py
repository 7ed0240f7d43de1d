"""Everyday words that mean the same to a person who asks for a tool.

General on purpose: what people do with computers, and no vocabulary of any one product. A word may have
more than one sense. A sense is indexed beside the word, so its own frequency (high, as a rule) keeps it weak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mcpproxy_py.core.late_patterns import late
from mcpproxy_py.core.search.tokens import stem

# Read as: these mean nearly the same, in these trades. Underscores join the words of a phrase.
_SYNONYMS: Final[Mapping[str, str]] = {
    # What is done, whatever it is done to.
    "~remove": "remove delete erase drop purge trash discard destroy wipe clear flush dispose cancel rid throw_away "
    "take_off take_out unlink deregister",
    "~make": "make create add new insert append attach generate build produce allocate schedule register compose draft "
    "open put set_up fresh initialize construct establish",
    "~show": "show get list read view display fetch retrieve see print return open obtain acquire examine look inspect "
    "give tell check enumerate overview detail",
    "~find": "find search look locate query discover lookup hunt seek grep match",
    "~change": "change update edit modify alter set replace patch assign configure adjust tweak revise rewrite amend "
    "correct fix overwrite increase decrease raise lower",
    "~send": "send post publish submit tell notify announce deliver dispatch share message",
    "~run": "run execute invoke launch start begin trigger perform call kick_off fire",
    "~stop": "stop halt terminate end kill cancel abort shut_down quit turn_off interrupt",
    "~restart": "restart reboot rollout rerun retry bounce redeploy relaunch",
    "~move": "move rename transfer relocate migrate shift drag",
    "~plan": "schedule reschedule postpone plan arrange book reserve set_up",
    "~save": "save store write record backup persist keep stash dump",
    "~copy": "copy duplicate clone replicate sync fork mirror",
    "~visit": "open navigate visit browse goto go load",
    "~press": "press click tap push hit",
    "~answer": "reply answer respond response react",
    "~upload": "upload attach put import ingest",
    "~load": "download fetch retrieve pull grab export",
    "~undo": "undo revert reset rollback restore unstage roll_back back_out recover discard go_back",
    "~explain": "explain describe detail summarize information about",
    "~brief": "summarize summary digest overview condense brief abstract recap gist outline",
    "~join": "join merge combine unite connect associate link attach",
    "~compare": "compare diff difference delta differ contrast change",
    "~convert": "convert change transform translate turn render parse encode",
    "~test": "test check verify validate confirm assert inspect lint",
    "~allow": "allow permit grant approve authorize accept enable give_access let",
    "~refuse": "deny reject refuse decline block forbid disallow dismiss",
    "~disable": "disable deactivate suspend turn_off mute pause silence snooze",
    "~enable": "enable activate resume unpause unmute unblock",
    "~withdraw": "revoke withdraw remove_access invalidate expire ban unassign",
    "~finish": "close complete finish resolve done mark_done end conclude tick_off check_off",
    "~count": "count number many total tally much sum amount",
    "~calculate": "calculate compute sum average aggregate statistic evaluate add_up",
    "~history": "history log past earlier previous changelog activity audit timeline revision version commit recent",
    "~latest": "latest recent newest last current new",
    "~size": "size large big space length usage",
    "~state": "status state progress health condition running happening going",
    "~owner": "owner author who assignee responsible blame wrote",
    "~assign": "assign allocate delegate hand_over responsible assignee give",
    "~tag": "tag label category mark flag categorize classify",
    "~follow": "watch follow subscribe monitor track observe tail stream",
    "~order": "sort order rank arrange priority prioritize",
    "~put_away": "archive hide shelve put_away stow close",
    "~list": "list all every enumerate available everything",
    "~wait": "wait until sleep pause delay",
    "~fill": "fill type enter input write form select",
    # Files, text and the shell.
    "~file": "file document attachment pdf",
    "~folder": "folder directory path tree subfolder structure",
    "~text": "text content body string paragraph sentence",
    "~line": "line row",
    "~permission": "permission access right role privilege acl share collaborator",
    "~shell": "shell terminal command bash console cmd powershell cli script",
    "~process": "process program task service daemon job",
    "~zip": "zip compress archive gzip tar",
    "~unzip": "unzip extract decompress unpack",
    "~disk": "disk storage drive volume filesystem",
    "~meta": "metadata detail information property attribute size stat modified field",
    # Code, reviews, builds.
    "~repository": "repository codebase project source git",
    "~code": "code source function snippet program codebase symbol class method",
    "~commit": "commit revision changeset sha save",
    "~log": "log output print stdout console trace",
    "~history_of_code": "commit history log changelog",
    "~branch": "branch checkout switch feature",
    "~stage": "stage add index staged unstage",
    "~pull": "pull merge review patch mr",
    "~review": "review feedback approve comment request_change inspect",
    "~ticket": "ticket issue bug task problem case defect card story incident request",
    "~todo": "todo task reminder action_item card chore",
    "~board": "board sprint backlog kanban project iteration milestone",
    "~release": "release version tag publish ship",
    "~deploy": "deploy release ship rollout publish deployment promote go_live",
    "~build": "build compile pipeline workflow ci job run action",
    "~automation": "workflow pipeline automation action job",
    "~package": "package library dependency module npm pip crate",
    "~comment": "comment remark note annotate reply feedback",
    "~fork": "fork clone copy",
    # Databases and tables.
    "~database": "database sql postgres postgresql mysql sqlite mongo mongodb db warehouse bigquery snowflake query",
    "~table": "table schema column relation structure collection",
    "~record": "record row entry item document",
    "~query": "query select sql statement ask",
    "~sheet": "spreadsheet sheet excel workbook worksheet csv",
    "~cell": "cell range row column value",
    "~chart": "chart graph plot diagram visualize figure",
    "~backup": "backup snapshot dump restore",
    "~cache": "cache redis key memcached ttl",
    "~slow": "slow performance latency explain plan optimize",
    # Servers, containers, clouds.
    "~kubernetes": "kubernetes k8s cluster kubectl pod namespace helm",
    "~container": "container pod docker image instance",
    "~machine": "server machine vm instance host node computer ec2 droplet",
    "~scale": "scale replica resize capacity instance grow",
    "~bucket": "bucket s3 blob object storage gcs",
    "~function": "function lambda serverless",
    "~dns": "dns domain record nameserver hostname",
    "~variable": "variable environment setting config configuration option preference parameter",
    "~queue": "queue topic message event kafka broker",
    "~cost": "cost bill spend price expense charge pay",
    # Watching over them.
    "~alert": "alert alarm page notification warning trigger monitor",
    "~incident": "incident outage downtime down page pagerduty",
    "~metric": "metric measure usage cpu statistic monitor telemetry number graph",
    "~failure": "error exception failure problem crash broken fail bug wrong fault stacktrace",
    "~dashboard": "dashboard panel report grafana",
    "~oncall": " oncall shift rotation duty",
    "~silence": "silence mute acknowledge snooze suppress",
    # Mail, calendar, chat, people.
    "~mail": "mail email inbox gmail outlook message",
    "~unread": "unread new inbox",
    "~spam": "spam junk phishing",
    "~forward": "forward relay",
    "~draft": "draft compose write",
    "~attachment": "attachment attach file enclosed",
    "~meeting": "meeting appointment event calendar invite call agenda session",
    "~calendar": "calendar agenda diary schedule availability day",
    "~free": "free busy availability available slot free_time vacant",
    "~invite": "invite invitation guest attendee participant rsvp",
    "~reminder": "reminder remind alarm notify due",
    "~deadline": "deadline due date",
    "~chat": "chat slack message channel discord team conversation dm telegram whatsapp",
    "~channel": "channel room group",
    "~thread": "thread conversation discussion reply",
    "~emoji": "emoji reaction react thumb smiley",
    "~person": "person user member colleague coworker teammate someone people employee staff human profile account",
    "~team": "team group organization department member",
    "~contact": "contact address_book phone person lead",
    "~phone": "phone call sms number text mobile",
    # Documents and what is kept in them.
    "~page": "page article wiki document confluence notion",
    "~document": "document doc paper page report manual documentation",
    "~slide": "slide presentation powerpoint deck",
    "~note": "note memo jot remember notebook write_down",
    "~memory": "memory remember recall fact knowledge entity observation forget memorize",
    "~graph": "graph relation node entity relationship edge link",
    "~guide": "documentation guide manual reference api docs help example library",
    "~template": "template boilerplate skeleton scaffold",
    # Customers, money, goods.
    "~customer": "customer client account buyer shopper",
    "~company": "company organization business firm account",
    "~deal": "deal opportunity pipeline sale lead prospect",
    "~refund": "refund money_back reimburse chargeback give_back return",
    "~payment": "payment pay charge transaction purchase card checkout money",
    "~invoice": "invoice bill receipt billing",
    "~subscription": "subscription plan membership recurring renewal",
    "~unsubscribe": "unsubscribe cancel_subscription opt_out",
    "~discount": "discount coupon promotion voucher promo",
    "~balance": "balance fund money account",
    "~payout": "payout withdrawal transfer",
    "~dispute": "dispute chargeback contest",
    "~price": "price cost rate quote amount",
    "~product": "product item goods article sku catalog merchandise",
    "~stock": "stock inventory quantity available",
    "~share_price": "stock share ticker quote equity market",
    "~purchase": "order purchase buy cart checkout",
    "~shipping": "shipping shipment deliver parcel fulfillment track package ship",
    # The web and the world.
    "~website": "website webpage site web url internet online page link address",
    "~browser": "browser playwright puppeteer tab chrome navigate page webpage web",
    "~scrape": "scrape crawl extract fetch html markdown",
    "~button": "button element link selector click",
    "~picture": "picture image photo screenshot capture snapshot icon drawing",
    "~screenshot": "screenshot capture snapshot screen",
    "~video": "video clip film youtube movie",
    "~audio": "audio sound music song track speech voice recording spotify",
    "~play": "play song music track playback",
    "~playlist": "playlist album queue",
    "~transcript": "transcript transcribe caption subtitle speech",
    "~language": "translate language english",
    "~news": "news headline article",
    "~weather": "weather forecast rain temperature umbrella sunny snow wind climate",
    "~forecast": "forecast tomorrow week outlook predict",
    "~map": "map location place address geocode coordinate latitude nearby",
    "~route": "route direction drive distance travel navigate way far journey commute",
    "~place": "place restaurant cafe shop location venue nearby near",
    "~time": "time clock hour now timezone date today oclock",
    "~timezone": "timezone time_zone utc zone",
    "~currency": "currency exchange dollar euro money rate forex",
    "~flight": "flight plane airline trip travel fly",
    "~hotel": "hotel room accommodation stay booking",
    # Keeping things safe, and the rest.
    "~secret": "secret password credential token key vault apikey",
    "~rotate": "rotate renew refresh regenerate",
    "~login": "login authenticate authentication session signin oauth credential",
    "~security": "security vulnerability cve scan threat advisory",
    "~encrypt": "encrypt cipher lock protect",
    "~webhook": "webhook callback hook notification",
    # What tells the subject of a request without naming it.
    "~when": "date time day today tomorrow yesterday tonight morning afternoon evening noon week weekend month monday "
    "tuesday wednesday thursday friday saturday sunday hour deadline due calendar event",
    "~somewhere": "city country town village street airport station location place address london paris berlin tokyo "
    "york madrid rome vienna sydney amsterdam singapore mumbai delhi beijing chicago boston seattle "
    "europe germany france spain italy japan china india brazil canada australia",
    "~anyone": "person user member someone somebody anyone anybody everyone everybody nobody boss manager colleague "
    "coworker teammate assignee",
    "~device": "device sensor lamp light thermostat smart",
}

# Read as: who says this speaks of that trade. Worth less than a synonym.
_TOPICS: Final[Mapping[str, str]] = {
    "~about_code": "git github gitlab bitbucket repository branch commit pull merge fork rebase diff staged "
    "checkout tag code codebase squash cherry_pick",
    "~about_files": "file folder directory filesystem path disk readme subfolder desktop downloads document",
    "~about_mail": "gmail outlook mail email inbox imap smtp recipient sender newsletter unread spam draft "
    "attachment label subject reply forward thread",
    "~about_calendar": "calendar event meeting appointment availability busy invite attendee schedule reschedule "
    "agenda monday tuesday wednesday thursday friday lunch dinner afternoon morning tomorrow",
    "~about_chat": "slack discord teams telegram whatsapp channel message chat dm thread emoji reaction post",
    "~about_tickets": "jira linear asana trello ticket issue sprint backlog bug epic story board kanban",
    "~about_database": "database sql postgres mysql sqlite mongodb table row column query schema index select join "
    "record",
    "~about_cluster": "kubernetes kubectl pod deployment namespace cluster node replica helm container docker image "
    "crash restart rollout",
    "~about_cloud": "aws azure gcp ec2 s3 lambda instance vm bucket region server cloudflare dns",
    "~about_builds": "ci pipeline workflow build job action runner artifact test deploy jenkins",
    "~about_wiki": "notion confluence wiki page document doc workspace knowledge article",
    "~about_sheets": "spreadsheet sheet excel cell row column formula workbook csv tab",
    "~about_sales": "crm hubspot salesforce contact lead deal company pipeline opportunity customer prospect",
    "~about_money": "stripe paypal payment invoice charge refund customer subscription card billing price payout "
    "money paid",
    "~about_shop": "shopify shop store order product inventory cart discount shipping customer sku",
    "~about_watching": "grafana datadog prometheus sentry metric alert dashboard incident monitor log trace error "
    "latency exception cpu outage crash",
    "~about_browser": "browser playwright puppeteer page click button form tab screenshot navigate login website",
    "~about_web": "web search google internet url website fetch scrape crawl news online",
    "~about_maps": "map maps place direction route distance address geocode drive walk nearby restaurant",
    "~about_weather": "weather forecast temperature rain snow storm sunny wind umbrella",
    "~about_memory": "memory remember knowledge entity relation observation recall forget note fact",
    "~about_media": "spotify youtube song music playlist video track album play transcript",
    "~about_secrets": "vault secret password credential token key login",
}

_SHORT_FORMS: Final[Mapping[str, str]] = {
    "repo": "repository", "dir": "directory", "db": "database", "config": "configuration", "env": "environment",
    "doc": "document", "msg": "message", "info": "information", "auth": "authentication", "param": "parameter",
    "admin": "administrator", "app": "application", "pr": "pull request", "img": "image", "pic": "picture",
    "tz": "timezone", "org": "organization", "max": "maximum", "min": "minimum", "num": "number", "perm": "permission",
}  # fmt: skip


def _by_words(groups: Mapping[str, str]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """The senses of a word, or of two words that follow each other."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for sense, words in groups.items():
        for word in words.split():
            key = tuple(map(stem, word.split("_")))
            found[key] = tuple(dict.fromkeys((*found.get(key, ()), sense)))
    return found


_SENSES: Final = _by_words(_SYNONYMS)
_SUBJECTS: Final = _by_words(_TOPICS)
_LONG_FORMS: Final = {stem(short): tuple(map(stem, whole.split())) for short, whole in _SHORT_FORMS.items()}


def senses(*words: str) -> tuple[str, ...]:
    """What else this stem says, or two in a row: names of senses, which no text can contain as they start with a
    tilde."""
    return _SENSES.get(words, ())


def topics(*words: str) -> tuple[str, ...]:
    """The trades that somebody who says this stem, or these two, speaks of; named like senses."""
    return _SUBJECTS.get(words, ())


def spelled_out(words: list[str]) -> list[str]:
    """The stems with short forms written out, so that `list_repos` meets "repositories"."""
    return [whole for word in words for whole in _LONG_FORMS.get(word, (word,))]


_QUESTION: Final = late(
    r"\W*(what|which|who|whose|where|when|how|is|are|was|were|do|does|did|has|have)\b", re.IGNORECASE
)
_FILE_NAME: Final = late(
    r"\w\.(md|txt|json|ya?ml|toml|ini|csv|pdf|png|jpe?g|gif|svg|py|js|ts|html|css|xml|log|docx?|xlsx?|zip)\b",
    re.IGNORECASE,
)
_LINK: Final = late(r"\bhttps?://\S+\.|\bwww\.|\w\.(com|org|net|io|dev)\b", re.IGNORECASE)
_MAIL_ADDRESS: Final = late(r"\w@\w")
_CHANNEL: Final = late(r"(?<!\S)#[a-z]")
_TICKET: Final = late(r"(?<!\S)#[0-9]|\b[A-Z]{2,8}-[0-9]{1,6}\b")
_MONEY: Final = late(r"[$€£¥] ?[0-9]|\b[0-9]+ ?(usd|eur|gbp|dollars?|euros?|bucks)\b", re.IGNORECASE)
_CLOCK: Final = late(r"\b[0-9]{1,2}(:[0-9]{2}|(:[0-9]{2})? ?[ap]m)\b", re.IGNORECASE)
_SIGN: Final = late(r"[0-9.@#$€£¥]")


def implied(query: str) -> tuple[str, ...]:
    """What a query asks for without a verb or noun that says so: a question ("what channels are there") wants to
    be shown something, a file name is about a file, and "3pm" about a time."""
    asked = ("~show",) if _QUESTION.match(query) else ()
    if not _SIGN.search(query):  # none of the shapes is without one, and most queries are
        return asked
    return asked + tuple(term for shape, term in _SHAPES if shape.search(query))


_SHAPES: Final = (
    (_FILE_NAME, stem("file")), (_LINK, "~website"), (_MAIL_ADDRESS, "~mail"), (_CHANNEL, "~channel"),
    (_TICKET, "~ticket"), (_MONEY, "~payment"), (_CLOCK, "~when"),
)  # fmt: skip
