/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the snapshot that reactors read out of a configuration. Control thread only; opens media.
 */
#ifndef WEFT_DAEMON_SNAPSHOT_BUILD_H
#define WEFT_DAEMON_SNAPSHOT_BUILD_H

#include "config/config.h"

struct media_registry;

/*
 * Opens media that are not open yet, or not as wished, through the registry, and builds the
 * snapshot. On failure everything newly opened is closed again. After success the caller gives the
 * snapshot to target_apply, and calls media_registry_commit once the change is kept, or _rollback
 * when applying or keeping failed. -EINPROGRESS: media are opening late, and what has opened stays
 * open. The caller calls media_registry_wait, then this function again with the same configuration,
 * or media_registry_rollback.
 */
int snapshot_from_config(const struct config *config, struct media_registry *registry,
			 uint64_t discovery_generation, struct snapshot **ret_snapshot,
			 struct config_errors *errors);

/* The snapshot in force, of this configuration, with the present ANA states of documents,
 * transitions and holds. Opens nothing. 0 or -ENOMEM. */
int snapshot_with_ana(const struct snapshot *in_force, const struct config *config,
		      struct media_registry *registry, uint64_t discovery_generation,
		      struct snapshot **ret_snapshot);
/* Sets ANA states that are in no document: holds and transitions. 0 or -ENOMEM. */
int snapshot_fill_ana(struct media_registry *registry, struct snapshot *snapshot);

#endif
