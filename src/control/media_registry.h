/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The media that are open now, by what names them, so that a new configuration keeps those that
 * did not change. Control thread only: opening and closing may block.
 *
 * A change is a transaction: media_registry_begin, any number of _get, then _commit (what nobody
 * got is released) or _rollback (what was opened since begin is released).
 */
#ifndef WEFT_CONTROL_MEDIA_REGISTRY_H
#define WEFT_CONTROL_MEDIA_REGISTRY_H

#include "target/target.h"

struct media_registry;

int media_registry_create(unsigned reactor_count, struct media_registry **ret_registry);
/* Releases everything; media that a snapshot still refers to close with it. */
void media_registry_destroy(struct media_registry *registry);

void media_registry_begin(struct media_registry *registry);
/* The store under `key`, opened by `spec` if it is not open; the caller gets a reference. */
int media_registry_get(struct media_registry *registry, const char *key, const char *spec,
		       struct ns_store **ret_store, struct media_error *ret_error);
void media_registry_commit(struct media_registry *registry);
void media_registry_rollback(struct media_registry *registry);
unsigned media_registry_count(const struct media_registry *registry);

#endif
