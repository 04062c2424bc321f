"""The Consultation benchmark (Liao et al., arXiv 2309.02077): its view of a case."""
