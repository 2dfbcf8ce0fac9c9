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

/* Whether the entry is a path to a subsystem, over a transport that this build has. */
bool discovery_entry_is_usable(const struct discovery_entry *entry);
/* Whether the entry is a path to this subsystem ("": to any), over a transport that this build does
 * not have. */
bool discovery_entry_is_left_out(const struct discovery_entry *entry, const char *nqn);

#define DISCOVERY_LEFT_OUT_BYTES 1024
/* Names such an entry and its transport, and the transports that are possible. Printable. Returns
 * `text`. */
const char *discovery_left_out_text(const struct discovery_entry *entry,
				    char text[DISCOVERY_LEFT_OUT_BYTES]);

#endif
