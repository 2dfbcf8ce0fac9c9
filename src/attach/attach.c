/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft attach`: makes a namespace a disk of this machine. Opens the namespace through libweft,
 * passes it to the NBD server or the ublk device, and closes it afterwards. Main thread. SIGTERM
 * and SIGINT are blocked before libweft starts its threads, and read from a descriptor.
 */
#include "attach/attach.h"

#include "attach/nbd.h"
#include "attach/ns.h"
#include "attach/ublk.h"
#include "base/tool_error.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int attached_run(const struct attach_options *options, struct weft *weft,
			struct attach_ns *attached)
{
	const struct weft_ns_info *info = &attached->handle.info;
	char description[NBD_NAME_BYTES];

	snprintf(description, sizeof(description), "namespace %u of %.200s", info->nsid,
		 options->where.nqn != NULL ? options->where.nqn : "the subsystem");
	if (options->is_ublk)
		return ublk_serve(&(struct ublk_options){
			.command = options->ns.command,
			.description = description,
			.id = options->ublk_id,
			.is_read_only = options->is_read_only || info->is_read_only,
			.weft = weft,
			.attached = attached,
		});
	return nbd_serve(&(struct nbd_options){
		.command = options->ns.command,
		.socket_path = options->nbd_socket,
		.export_name = options->export_name,
		.description = description,
		.is_read_only = options->is_read_only,
		.weft = weft,
		.attached = attached,
	});
}

int attach_run(struct attach_options *options)
{
	struct attach_ns attached = {.command = options->ns.command, .event_fd = -1};
	struct weft *weft;
	sigset_t set;
	int res = -1;

	/* Before connecting: whether ublk is available does not depend on a target. */
	if (options->is_ublk && ublk_check(options->ns.command) != 0)
		return -1;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	attached.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (attached.event_fd < 0) {
		tool_error(options->ns.command, "cannot wait for events: %s", strerror(errno));
		return -1;
	}
	options->ns.event_fd = attached.event_fd;
	if (ns_instance_create(&options->ns, WEFT_CALLBACKS_POLL, &weft) == 0) {
		if (ns_handle_open(weft, &options->ns, &options->where, &attached.handle) == 0) {
			res = attached_run(options, weft, &attached);
			ns_handle_close(&attached.handle);
		}
		weft_destroy(weft);
	}
	close(attached.event_fd);
	return res;
}
