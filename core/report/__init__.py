"""From stored runs to what a paper needs: evaluation report, flow diagram, gate, bundle."""
