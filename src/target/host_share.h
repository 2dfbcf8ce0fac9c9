/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one host uses of what all hosts share: connections, controllers, log lines. A host is known
 * by two names, and each has a share: the address that the host connects from, which it cannot
 * choose freely, and the NQN that it claims.
 *
 * Owned by the registry (first reactor), except `lines`, which any thread that holds the share may
 * use. A share whose counts are all 0 is kept for a while, so that a host that disconnects and
 * reconnects is still subject to the limit of its log lines. The oldest such shares are freed
 * first.
 */
#ifndef WEFT_TARGET_HOST_SHARE_H
#define WEFT_TARGET_HOST_SHARE_H

#include "base/list.h"
#include "base/log.h"
#include "base/net_addr.h"
#include "wire/identify.h"

struct target;

/* Connections beyond the limits, in total and per address. Only discovery may use them, so that
 * hosts can always run discovery. */
#define HOST_SHARE_SPARE_MAX          64
#define HOST_SHARE_SPARE_PER_HOST_MAX 4

struct host_share {
	char nqn[NVME_NQN_BYTES]; /* empty: the share of an address */
	struct net_addr addr;
	uint32_t connections;     /* of an address share */
	uint32_t io_ctrls;        /* I/O controllers */
	uint32_t discovery_ctrls; /* discovery controllers */
	struct log_limit lines;   /* of an address share: connects and disconnects */
	struct list node;         /* in target->shares, or target->idle_shares */
};

/* Finds or creates the share. NULL when out of memory. */
struct host_share *host_share_of_addr(struct target *target, const struct net_addr *addr);
struct host_share *host_share_of_nqn(struct target *target, const char *nqn);
/* Call when a count went down, or when a new share was not used. Frees an unused share, or keeps it
 * for a while. */
void host_share_settle(struct target *target, struct host_share *share);
void host_shares_destroy(struct target *target);

#endif
