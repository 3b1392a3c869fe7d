"""Bridges to frameworks and partners, one module or package each. Nothing else in this package imports them."""
