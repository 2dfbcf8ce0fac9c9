/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change does that its document does not tell: reservations and blocks marked bad that leave
 * or come back with their namespaces (daemon/removed_ns.h), and namespaces that cannot come back
 * because the file is not theirs. Told before the change is made, so that a dry run has it too, and
 * with the difference in the audit. Control thread only; looks at files, so it may block.
 */
#ifndef WEFT_DAEMON_FORESEE_H
#define WEFT_DAEMON_FORESEE_H

#include "config/config.h"

struct media_registry;

/* Adds lines to *diff, which is allocated. 0, or -errno; -EUCLEAN: with errors. */
int foresee_change(const struct media_registry *registry, const struct config *from,
		   const struct config *to, char **diff, struct config_errors *errors);

#endif
