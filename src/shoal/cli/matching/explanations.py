"""Output of `shoal match --explain`: the reason why each subscription does not match a publication.

As text, a pair that matches is one line, and any other a line with the parts of its filter that
would have to change, indented, below it.  As JSON, every pair is one object with the whole tree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from shoal.cli.matching.files import ReadPublication, ReadSubscription
from shoal.matching import Explanation, FilterVerdict, explain


def explanations(
    subscriptions: Sequence[ReadSubscription],
    publications: Sequence[ReadPublication],
    *,
    as_json: bool,
) -> Iterator[str]:
    """One text for each pair, publication by publication, in the order of the files."""
    for publication in publications:
        for subscription in subscriptions:
            why = explain(subscription.filter, publication.attributes)
            if as_json:
                yield _as_json(publication.id, subscription.id, why)
            else:
                yield _as_text(publication.id, subscription.id, why)


def _as_json(publication: object, subscription: str | int, why: Explanation) -> str:
    pair = {
        "publication": publication,
        "subscription": subscription,
        "matches": why.verdict is FilterVerdict.TRUE,
        "why": why.to_dict(),
    }
    return json.dumps(pair, ensure_ascii=False, default=str)


def _as_text(publication: object, subscription: str | int, why: Explanation) -> str:
    if why.verdict is FilterVerdict.TRUE:
        return f"{publication} matches {subscription}"
    lines = "\n".join(f"  {line}" for line in why.text().split("\n"))
    return f"{publication} does not match {subscription}:\n{lines}"
