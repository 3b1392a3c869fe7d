"""Ids that break out of texts, attributes and addresses that are put together without care."""

ODD_IDS = (
    "<img src=x onerror=alert(1)>", '"><script>alert(1)</script>', "a/b?c#d", "..", "{{7*7}}", "' or 1", "näme 🙂",
    "hx-get=/jobs", "%2e%2e", "a&b=c;d",
)  # fmt: skip
