"""Words of the Experts page."""

from core.store.review_records import Kind, Sampling

KIND: dict[Kind, str] = {
    "conversations": "Conversations", "answers": "Free responses", "baseline": "Vignettes, answered by experts",
}  # fmt: skip
SAMPLING: dict[Sampling, str] = {
    "random": "At random", "specialty": "By model and specialty", "dataset": "By model and data set",
    "disagreement": "Where graders or rules disagree",
}  # fmt: skip
SAMPLING_HELP = (
    "At random: every item has the same chance. By model and specialty or data set: as many of each, on the same cases "
    "for every model, so that models can be compared in pairs. Disagreement: only items on which the two rules for "
    "choices, two graders, or two verdicts on the same words differ."
)
MEASURE = {
    "percent agreement": "Agreement", "Cohen's kappa": "Cohen’s κ", "Fleiss' kappa": "Fleiss’ κ",
    "Gwet's AC1": "Gwet’s AC1", "Krippendorff's alpha": "Krippendorff’s α",
}  # fmt: skip
MEASURE_HELP = (
    "Over the items that two annotators saw who did not know of a tie. κ, AC1 and α correct agreement for chance; "
    "where nearly all answers are the same, κ and α can be low though people agree, and AC1 stays near the agreement."
)
REVIEW, ANNOTATOR, ITEM = "review", "annotator", "item"
"""The parameters in the address of a review under way."""
