/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft attach`: a namespace as a disk of this machine. Opens it through libweft, hands it to the
 * NBD server or the ublk device, and closes it when that has ended. Main thread; SIGTERM and SIGINT
 * are blocked before libweft starts its own, and taken from a descriptor.
 */
#include "cli/attach.h"
#include "cli/cli.h"
#include "cli/nbd.h"
#include "cli/ublk.h"

#include <signal.h>
#include <stdio.h>

static int attached_run(const struct attach_options *options, struct weft *weft,
			struct ns_handle *handle)
{
	char description[NBD_NAME_BYTES];

	snprintf(description, sizeof(description), "namespace %u of %.200s", handle->info.nsid,
		 options->where.nqn != NULL ? options->where.nqn : "the subsystem");
	if (options->is_ublk)
		return ublk_serve(&(struct ublk_options){
			.command = options->ns.command,
			.description = description,
			.id = options->ublk_id,
			.is_read_only = options->is_read_only || handle->info.is_read_only,
			.weft = weft,
			.ns = handle->ns,
		});
	return nbd_serve(&(struct nbd_options){
		.command = options->ns.command,
		.socket_path = options->nbd_socket,
		.export_name = options->export_name,
		.description = description,
		.is_read_only = options->is_read_only,
		.weft = weft,
		.ns = handle->ns,
	});
}

int cmd_attach(int argc, char **argv)
{
	static struct attach_options options;
	struct ns_handle handle;
	struct weft *weft;
	sigset_t set;
	int res;

	if (!attach_args(argc, argv, &options, &res))
		return res;
	/* Before the paths are opened: what cannot be needs no target to say so. */
	if (options.is_ublk && ublk_check(options.ns.command) != 0)
		return CLI_FAILED;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (ns_instance_create(&options.ns, WEFT_CALLBACKS_POLL, &weft) != 0)
		return CLI_FAILED;
	res = CLI_FAILED;
	if (ns_handle_open(weft, &options.ns, &options.where, &handle) == 0) {
		res = attached_run(&options, weft, &handle);
		ns_handle_close(&handle);
	}
	weft_destroy(weft);
	return res;
}
