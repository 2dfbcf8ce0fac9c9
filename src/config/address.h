/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether an address can be listened on, before the target tries. Blocks; control thread.
 */
#ifndef WEFT_CONFIG_ADDRESS_H
#define WEFT_CONFIG_ADDRESS_H

#include "base/net_addr.h"

#include <stdint.h>

/* 0 when a listener could be opened on `addr` now, or -errno. Opening it may still fail. */
int address_probe(const struct net_addr *addr);
/* Waits while another process has `addr`, until the deadline at most. */
void address_wait(const struct net_addr *addr, uint64_t deadline_ns);
/* Waits while another process has the Unix socket of this path, until the deadline at most. Removes
 * the name that a dead process left there. */
void address_wait_unix(const char *path, uint64_t deadline_ns);

#endif
