"""Reviews by people: what is drawn, asked, decided and agreed on."""
