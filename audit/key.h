/*
 * The install key: the Ed25519 key that signs the checkpoints of every log of this host, or of this user. A PEM file that only its owner can
 * read. Making one takes randomness and no cryptography: a private key is 32 random bytes (RFC 8032, 5.1.5).
 */
#ifndef ECLUSA_AUDIT_KEY_H
#define ECLUSA_AUDIT_KEY_H

#include "common/buf.h"
#include "common/failure.h"
#include "common/sign.h"

/** Where it is: /var/lib/eclusa/audit-key.pem for root, else $XDG_STATE_HOME/eclusa/audit-key.pem, else ~/.local/state/.... */
int audit_key_path(bool root, char *ret_path, size_t capacity, struct failure *why);
/**
 * Open the key for the one who will sign, made first if there is none. @return descriptor to read from; -ENOENT, -EROFS, -EACCES: there is none and
 * none can be made here; another negative errno, such as -EPERM for one that others can read. Its content is not looked at.
 */
int audit_key_open(const char *path, struct failure *why);
/** The key where it is by default. @return descriptor; -1: there is none and none can be made, so that the log is not signed; another negative errno. */
int audit_key_open_default(bool root, struct failure *why);
/** The PEM form of a public key. */
int audit_key_public_pem(const struct sign_public *key, struct buf *to);

#endif
