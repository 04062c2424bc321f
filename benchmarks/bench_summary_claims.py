"""Can rules decide which ages, sexes and denials of a summary no message states? Prints precision and recall.

summary_claims.json has 103 messages and summaries, written by hand before the rules were run on them; half of the
summaries state what nobody can read in the messages. After the first reading the words of a sex were extended (before,
its precision was 0.71); examples of a second reading were then written and run once. Denials are judged by a rule that
is not in the program: the summary denies a finding of the knowledge base that is read in no message.

    python benchmarks/bench_summary_claims.py
"""

from __future__ import annotations

import json
from collections import Counter

from common import ROOT

from core.text.findings import recogniser
from core.text.unsaid import unsaid_in


def kinds_flagged(summary: str, messages: list[str]) -> set[str]:
    said = {finding for message in messages for finding in recogniser().read(message)}
    denied = {finding for finding, present in recogniser().read(summary).items() if not present}
    return {claim.kind for claim in unsaid_in(summary, messages)} | ({"denied"} if denied - said else set())


def main() -> None:
    counts: Counter[tuple[tuple[str, int], bool, bool]] = Counter()
    for example in json.loads((ROOT / "benchmarks" / "summary_claims.json").read_text()):
        kind, invented = example["kind"], example["invented"]
        flagged = kind in kinds_flagged(example["summary"], example["messages"])
        counts[(kind, example["read"]), flagged, invented] += 1
        if flagged != invented:
            print(f"{kind} wrongly {'marked' if flagged else 'passed'}: {example['summary']} | {example['messages']}")
    for group in dict.fromkeys(group for group, _, _ in counts):
        right, wrong, missed = (counts[group, *case] for case in ((True, True), (True, False), (False, True)))
        n = sum(number for (of, _, _), number in counts.items() if of == group)
        shares = f"precision {right / (right + wrong):.2f}, recall {right / (right + missed):.2f}"
        print(f"{group[0]}, reading {group[1]}: {n} summaries, {shares}")


if __name__ == "__main__":
    main()
