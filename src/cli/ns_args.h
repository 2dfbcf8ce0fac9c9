/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that name the namespace of a sub-command and how it is opened (client/). Shared by
 * `weft attach` and `weft copy`. Main thread.
 */
#ifndef WEFT_CLI_NS_ARGS_H
#define WEFT_CLI_NS_ARGS_H

#include "cli/options.h"
#include "client/ns_handle.h"

extern const struct cli_option ns_where_options[]; /* fill a struct ns_where: the namespace */
extern const struct cli_option ns_open_options[];  /* fill a struct ns_options: how to open it */

/* Called after the last option: fills in the defaults. */
void ns_args_finish_where(struct ns_where *where);

#endif
