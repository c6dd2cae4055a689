"""Where commands of a step run: bubblewrap, or nothing at all; and the gateway their network goes through.

Standard library alone, but for `select`: the supervisor and the companion import these modules.
"""
