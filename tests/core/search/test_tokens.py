from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.search.synonyms import implied, senses, spelled_out, topics
from mcpproxy_py.core.search.tokens import LONGEST_WORD, lookalikes, nearest, stem, tokens

FAMILIES = """create creates creating created creation|delete deleting deletion|configure configuration configuring
|notify notification notifications|translate translation translating|deploy deployment deploying|pay paid payment
|query queries querying|run running ran|cancel cancelled canceling|install installation installing|branch branches
|address addresses|status statuses|use uses using used|add adding added|summary summaries|modify modification
|organize organise organization organisation organising|fill filling|close closing closes|describe description
|resolve resolution|format formatting formatted|index indexes indices|category categories|file files|write written"""
STRANGERS = ["general generate", "file fill", "state statement", "day data", "commit comment", "new news"]


@pytest.mark.parametrize("family", FAMILIES.split("|"))
def test_the_forms_of_a_word_meet(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


@pytest.mark.parametrize("pair", STRANGERS)
def test_words_that_only_look_related_stay_apart(pair: str) -> None:
    one, other = pair.split()
    assert stem(one) != stem(other)


@pytest.mark.proves("FIND-3")
def test_identifiers_and_prose_become_the_same_tokens() -> None:
    wanted = tokens("create issue", 100)
    for written in ("create_issue", "createIssue", "CreateIssue", "create-issue", "creating issues", "CREATE ISSUE"):
        assert tokens(written, 100) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("GetHTTPResponse", ["get", "http", "response"]),
        ("listURLs", ["list", "url"]),
        ("listGitHubIssues", ["list", "github", "issue"]),
        ("OAuth2Token", ["oauth2", "oauth", "token"]),
        ("s3 k8s ec2", ["s3", "k8s", "ec2"]),
        ("Café", ["cafe"]),
        ("ＦＵＬＬ", ["full"]),
        ("what's the weather", ["weather"]),
        ("who_am_i", ["who", "am", "i"]),
        ("", []),
        ("_-_ !?", []),
    ],
)
def test_text_is_cut_where_a_reader_would_cut_it(text: str, words: list[str]) -> None:
    assert tokens(text, 100) == [stem(word) for word in words]


def test_scripts_without_spaces_can_be_found_by_part() -> None:
    assert set(tokens("问题", 100)) <= set(tokens("创建问题", 100))


@given(st.text(), st.integers(0, 50))
def test_any_text_gives_short_tokens_and_only_from_its_beginning(text: str, cap: int) -> None:
    found = tokens(text, cap)
    assert found == tokens(text[:cap], 10_000)
    assert all(0 < len(token) <= LONGEST_WORD for token in found)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=60))
def test_a_stem_is_never_empty(word: str) -> None:
    assert stem(word)


def test_everyday_verbs_share_a_sense_and_others_have_none() -> None:
    assert set(senses(stem("remove"))) & set(senses(stem("delete")))
    assert not set(senses(stem("remove"))) & set(senses(stem("create")))
    assert senses("florble") == ()


def test_a_sense_can_never_be_written_in_a_text() -> None:
    assert all(sense.startswith("~") for sense in senses(stem("get")))
    assert tokens("~show", 100) == ["show"]


def test_short_forms_are_written_out() -> None:
    assert spelled_out(tokens("list_repos", 100)) == tokens("list repositories", 100)


def test_the_shape_of_a_query_implies_what_its_words_leave_out() -> None:
    assert implied("what channels are there") == ("~show",)
    assert implied("save as notes.md") == (stem("file"),)
    assert implied("look at https://example.com/page") == implied("look at example.com") == ("~website",)
    assert implied("charge $20 at 3pm") == ("~payment", "~when")
    assert implied("tell ann@example about #general") == ("~mail", "~channel")
    assert implied("close #12") == implied("close ABC-12") == ("~ticket",)
    assert implied("whatever, at noon, 7 of them.") == ()


def test_two_words_in_a_row_may_have_a_sense_of_their_own() -> None:
    assert set(senses(stem("money"), stem("back"))) & set(senses(stem("refund")))
    assert senses("florble", "wug") == ()
    assert set(topics("kubectl")) & set(topics("helm"))
    assert topics("florble") == ()


def test_what_looks_like_an_unknown_word_is_a_slip_of_it_or_begins_with_it() -> None:
    known = ["repository", "report", "repositoryless", "wall"]
    assert lookalikes("repositry", known, sorted(known)) == ["repository"]
    assert lookalikes("reposi", known, sorted(known)) == ["repository", "repositoryless"]
    assert lookalikes("wal", known, sorted(known)) == []
    assert lookalikes("x" * 500, known, sorted(known)) == []


@pytest.mark.parametrize(
    ("name", "names", "first"),
    [
        ("create_isue", ["github:create_issue", "linear:update_issue"], "github:create_issue"),
        ("github:create_isue", ["gitlab:create_issue", "github:create_issue"], "github:create_issue"),
        ("issue_create", ["github:create_issue", "github:list_labels"], "github:create_issue"),
        ("prot", ["host", "path", "port"], "port"),
        ("LISTEN", ["listen", "lessen"], "listen"),
    ],
)
def test_the_name_that_was_meant_comes_first(name: str, names: list[str], first: str) -> None:
    assert nearest(name, names)[0] == first


def test_nothing_is_offered_when_nothing_is_alike() -> None:
    assert nearest("zebra", ["port", "host"]) == []
    assert nearest("zebra", []) == []


def test_equally_near_names_come_in_order_of_name() -> None:
    assert nearest("tool", ["toolb", "toola", "toolc"], n=2) == ["toola", "toolb"]


@pytest.mark.parametrize("hostile", ["read\nfile", "read\x1b[2Jfile", "read_file" * 100, ""])
def test_a_name_that_would_spoil_a_message_is_never_offered(hostile: str) -> None:
    assert nearest("read_file", [hostile]) == []


@given(st.text(max_size=300), st.lists(st.text(max_size=150), max_size=20), st.integers(-1, 5))
def test_suggestions_are_few_known_and_independent_of_order(name: str, names: list[str], n: int) -> None:
    found = nearest(name, names, n)
    assert len(found) <= max(n, 0)
    assert set(found) <= set(names)
    assert found == nearest(name, reversed(names), n)


def test_a_huge_name_among_many_names_is_answered() -> None:
    assert nearest("a" * 1_000_000, (f"{'b' * 120}{number}" for number in range(3_000))) == []
