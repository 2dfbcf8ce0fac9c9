/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace that a tool works on, opened over all its paths through libweft's public interface.
 * Shared by `weft attach` and `weft copy`. Main thread.
 */
#ifndef WEFT_CLIENT_NS_HANDLE_H
#define WEFT_CLIENT_NS_HANDLE_H

#include "client/ns_where.h"

#define NS_TIMEOUT_BYTES 512

/* How namespaces are opened. NULL: libweft's default. */
struct ns_options {
	const char *command; /* the sub-command, for messages */
	const char *host_nqn;
	const char *host_id;
	const char *profile;
	const char *policy;
	bool header_digest;
	bool data_digest;
	bool is_quiet; /* does not tell what happens to paths */
	int event_fd;  /* an eventfd that is written to on every event, or 0: none */
	char timeouts[NS_TIMEOUT_BYTES]; /* "name=value,..." */
};

/* An open namespace. */
struct ns_handle {
	struct weft_subsystem *subsystem;
	struct weft_ns *ns;
	struct weft_ns_info info;
};

/* 0 or -errno, after a message. `callbacks` says how requests end. */
int ns_instance_create(const struct ns_options *options, enum weft_callbacks callbacks,
		       struct weft **ret_weft);
/* What happens to paths is told on standard error. 0 or -errno, after a message. */
int ns_handle_open(struct weft *weft, const struct ns_options *options,
		   const struct ns_where *where, struct ns_handle *ret_handle);
void ns_handle_close(struct ns_handle *handle);

#endif
