"""Other people's servers behind the gateway, compared with the same client straight at them."""
