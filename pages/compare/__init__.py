"""Two models, versions, runs or arms compared case by case, with both transcripts of any case side by side."""
