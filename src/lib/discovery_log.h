/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches the whole log of a discovery controller and waits for it. Not for a reactor's thread: the
 * call runs a session (lib/session.h) of its own.
 */
#ifndef WEFT_LIB_DISCOVERY_LOG_H
#define WEFT_LIB_DISCOVERY_LOG_H

#include "host/host.h"

struct discovery_log {
	struct discovery_header header;
	struct discovery_entry *entries; /* header.entry_count entries */
};

/* config: of the discovery controller, without I/O queues. 0, or -errno with the reason in
 * *ret_error. Free the log with discovery_log_free. */
int discovery_log_fetch(const struct host_config *config, struct discovery_log *ret_log,
			struct host_error *ret_error);
void discovery_log_free(struct discovery_log *log);

#endif
