/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery log for one host: the subsystems that this target offers to it, and their
 * addresses. NVMe Base 2.1, section 5.1.12.3.1. Passed to the target as its
 * target_discovery_log_fn.
 */
#ifndef WEFT_DISCOVERY_DISCOVERY_H
#define WEFT_DISCOVERY_DISCOVERY_H

#include "target/target.h"

/* EFLAGS: the discovery controller of this entry supports explicit persistent connections. */
#define DISCOVERY_FLAG_EPCSD 0x2

/*
 * Copies [offset, offset + len_bytes) of the log into buf and zeroes everything past the log's end.
 * Returns the log's full size in bytes. Any reactor; does not allocate.
 */
uint64_t discovery_log_read(const struct discovery_asker *asker, uint64_t offset, uint8_t *buf,
			    uint32_t len_bytes);

#endif
