policy_SOURCES :=
