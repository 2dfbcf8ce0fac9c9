/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A namespace opened by a tool over all its paths, through libweft's public interface. Shared by
 * `weft attach` and `weft copy`. Main thread.
 */
#ifndef WEFT_CLIENT_NS_HANDLE_H
#define WEFT_CLIENT_NS_HANDLE_H

#include "client/ns_where.h"

#define NS_TIMEOUT_BYTES 512

/* How to open namespaces. NULL: libweft's default. */
struct ns_options {
	const char *command; /* the sub-command, for messages */
	const char *host_nqn;
	const char *host_id;
	const char *profile;
	const char *policy;
	bool header_digest;
	bool data_digest;
	bool is_quiet;                   /* do not print events on paths */
	int event_fd;                    /* an eventfd to write to on every event; 0: none */
	char timeouts[NS_TIMEOUT_BYTES]; /* "name=value,..." */
};

/* An open namespace. */
struct ns_handle {
	struct weft_subsystem *subsystem;
	struct weft_ns *ns;
	struct weft_ns_info info;
};

/* Creates the libweft instance. `callbacks`: how requests complete. 0 or -errno, after a
 * message. */
int ns_instance_create(const struct ns_options *options, enum weft_callbacks callbacks,
		       struct weft **ret_weft);
/* Opens the namespace. Later events on paths are printed to standard error; `options` must stay
 * valid until ns_handle_close. 0 or -errno, after a message. */
int ns_handle_open(struct weft *weft, const struct ns_options *options,
		   const struct ns_where *where, struct ns_handle *ret_handle);
void ns_handle_close(struct ns_handle *handle);

#endif
