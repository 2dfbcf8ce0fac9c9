/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP: the configuration file is read again and becomes the desired state, as a change like any
 * other. Control reactor only; reading blocks.
 */
#ifndef WEFT_DAEMON_RELOAD_H
#define WEFT_DAEMON_RELOAD_H

#include "daemon/change.h"
#include "store/store.h"

/* The path stays valid until the change is over. What comes of it is logged. */
void reload_file(const char *path, struct store *store, struct changes *changes);

#endif
