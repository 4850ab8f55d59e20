"""N-grams with Kneser-Ney smoothing on Penn Treebank, alone and with a cache of words.

    python benchmarks/ngrams.py DIR > results/joulin2015-ngrams/table.json

DIR is a folder with Mikolov's three files. Joulin & Mikolov 2015, Table 4, has 141 and 125 on the
test text, without saying which smoothing, cache or toolkit. The validation text alone chooses the
cache. It takes about ten seconds.
"""

from __future__ import annotations

import json
import sys

from unbounded.evaluation import ngram_result
from unbounded.evaluation.provenance import provenance
from unbounded.tasks import read_penn_treebank

ORDERS = (3, 4, 5, 6)


def main() -> None:
    task = read_penn_treebank(sys.argv[1])
    rows = []
    for order in ORDERS:
        for modified in (True, False):
            result = ngram_result(task, order, modified=modified)._asdict()
            result["discounts"] = [list(discounts) for discounts in result["discounts"]]
            rows.append({"order": order, "modified": modified, **result})
    published = {"test": 141, "test_cache": 125}
    source = "Joulin & Mikolov 2015, arXiv:1503.01007, Table 4"
    table = {
        "command": "python benchmarks/ngrams.py DIR > results/joulin2015-ngrams/table.json",
        "source": source,
        "published": published,
        "data": task.data_digest[:16],
        "rows": rows,
        **provenance(),
    }
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
