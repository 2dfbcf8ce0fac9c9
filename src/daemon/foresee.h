/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predicts the effects of a change that its document does not show. Reservations and blocks marked
 * bad leave or come back with their namespaces (daemon/removed_ns.h). A namespace cannot come back
 * when the file is not its own. The effects are reported before the change is made, so that a dry
 * run has them too. The audit keeps them with the difference. Control thread only; looks at files,
 * so it may block.
 */
#ifndef WEFT_DAEMON_FORESEE_H
#define WEFT_DAEMON_FORESEE_H

#include "config/config.h"

struct media_registry;

/* Adds lines to *diff, an allocated string, which is replaced. 0, or -errno; -EUCLEAN: with
 * errors. */
int foresee_change(const struct media_registry *registry, const struct config *from,
		   const struct config *to, char **diff, struct config_errors *errors);

#endif
