"""What simulated patients do wrong: rules on their replies, and how often they are broken."""
