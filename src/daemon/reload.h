/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP: the configuration file is read again and becomes the desired state through a change.
 * Control reactor only; reading blocks.
 */
#ifndef WEFT_DAEMON_RELOAD_H
#define WEFT_DAEMON_RELOAD_H

#include "daemon/change.h"
#include "store/store.h"

/* The path must stay valid until the change has ended. The result is logged. */
void reload_file(const char *path, struct store *store, struct changes *changes);

#endif
