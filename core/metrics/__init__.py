"""The figures: computed from what the store hands over, with the numbers behind them."""
