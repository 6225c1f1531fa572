// The object that owns the precompiled header.
