"""What happens in a step, and who sees to it: dispatch, supervisor, shim, follower, harvest."""
