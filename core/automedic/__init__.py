"""AutoMedic (Oh, Park, Kim, arXiv 2512.10195): its view of a case, and the tags its doctor speaks in."""
