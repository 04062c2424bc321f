"""Reviews by experts: their decisions, their agreement, workbooks in and out, and graders compared with them."""
