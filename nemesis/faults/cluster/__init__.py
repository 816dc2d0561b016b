"""Operations of an administrator, at bad moments."""
