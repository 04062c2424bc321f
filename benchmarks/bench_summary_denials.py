"""Could a rule decide that a summary denies a finding which no message speaks of? Prints its precision and recall.

summary_denials.json has 45 messages and summaries, written by hand before the rule was run: 20 summaries deny something
that no message speaks of. The rule flags a denied finding of the knowledge base that is read in no message.

    python benchmarks/bench_summary_denials.py
"""

from __future__ import annotations

import json

from common import ROOT

from core.text.findings import recogniser


def main() -> None:
    examples = json.loads((ROOT / "benchmarks" / "summary_denials.json").read_text())
    counts = {"right": 0, "wrong": 0, "missed": 0}
    for example in examples:
        said = {finding for message in example["messages"] for finding in recogniser().read(message)}
        denied = {finding for finding, present in recogniser().read(example["summary"]).items() if not present}
        flagged, invented = bool(denied - said), example["invented"]
        counts["right"] += flagged and invented
        counts["wrong"] += flagged and not invented
        counts["missed"] += invented and not flagged
        if flagged and not invented:
            print(f"wrongly flagged: {example['summary']} | {' '.join(example['messages'])}")
    precision = counts["right"] / (counts["right"] + counts["wrong"])
    recall = counts["right"] / (counts["right"] + counts["missed"])
    print(f"{len(examples)} summaries: precision {precision:.2f}, recall {recall:.2f}; a rule needs 0.80 to decide.")


if __name__ == "__main__":
    main()
