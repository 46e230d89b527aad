"""Events in API v3: listed, searched, traced to where they counted."""
