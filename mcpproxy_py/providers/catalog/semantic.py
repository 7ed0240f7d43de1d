"""Names by meaning: optional help for the last rung of name resolution (CAT-9), with `mcpproxy-py[semantic]`.

A capability lies in the middle of what is said of it: its name, its description, and every alias. These vectors are
made when the catalog is read, from whatever capabilities there are, one's own included. Without the extra, words alone
decide.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from mcpproxy_py import word_vectors
from mcpproxy_py.core.catalog.resolve import LONGEST, Similar, Term
from mcpproxy_py.word_vectors import NoWordVectors, WordVectors

log = logging.getLogger(__name__)

# Cosines of unrelated short texts lie around the first; from the second on they mean the same. Chosen by asking for
# each alias with itself left out (`python -m tests.bench.catalog_names --aliases`), not by the phrasings of the bench.
UNRELATED: Final = 0.0
SAME: Final = 0.7


def ranker(terms: Iterable[Term], aliases: Mapping[str, str]) -> Similar | None:
    """The semantic ranker for these capabilities, or `None` where it cannot be had. Reads the vectors of words: call it
    in a thread, before serving."""
    terms = list(terms)
    if not (terms and word_vectors.installed()):
        return None
    try:
        words = word_vectors.load()
    except NoWordVectors as error:
        log.warning("the catalog's names are resolved without meanings: %s", error)
        return None
    return ranked_by(words, terms, aliases)


def ranked_by(words: WordVectors, terms: Iterable[Term], aliases: Mapping[str, str]) -> Similar:
    import numpy

    said = {term.name: [term.name, term.description] for term in terms}
    for phrase, name in aliases.items():
        said[name].append(phrase)
    names = list(said)
    middles = numpy.stack([words.unit(sum(map(words.embed, texts))) for texts in said.values()])

    def similar(query: str) -> Mapping[str, float]:
        """The cosine with each capability, stretched so that unrelated is 0 and the same is 1."""
        cosines = middles @ words.embed(query[:LONGEST])
        return {
            name: min((float(cosine) - UNRELATED) / (SAME - UNRELATED), 1.0)
            for name, cosine in zip(names, cosines, strict=True)
            if cosine > UNRELATED
        }

    return similar
