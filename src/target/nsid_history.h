/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which namespaces the NSIDs of a subsystem had before, carried from snapshot to snapshot. The
 * target thus knows that an NSID was given to another namespace, however many changes lie between
 * the removal of the former namespace and the creation of the next.
 */
#ifndef WEFT_TARGET_NSID_HISTORY_H
#define WEFT_TARGET_NSID_HISTORY_H

#include "target/target.h"

/* The last namespace of an NSID that has none now. */
struct nsid_former {
	uint32_t nsid;
	struct uuid uuid;
	uint64_t identity_generation; /* of that namespace */
	uint64_t gone_generation;     /* generation of the first snapshot without it */
};

/*
 * Fills in identity_generation of the namespaces of `is` and of `is` itself, and its formers.
 * `generation` is that of the snapshot of `is`. On the control reactor, before reactors see `is`. 0
 * or -ENOMEM.
 */
int nsid_history_carry(const struct subsystem *was, struct subsystem *is, uint64_t generation);

#endif
