/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of the document's reader that live in files of their own. Control thread only;
 * private to src/control.
 */
#ifndef WEFT_CONTROL_CONFIG_PARSE_H
#define WEFT_CONTROL_CONFIG_PARSE_H

#include "control/config_json.h"

/* Each reads one element at the cursor; what is wrong leaves an error and a usable struct. */
void config_subsystem_parse(struct config_cursor *at, const json_t *object,
			    struct config_subsystem *subsystem);
void config_port_parse(struct config_cursor *at, const json_t *object, unsigned index,
		       struct config_port *port);
void config_limits_parse(struct config_cursor *at, const json_t *object,
			 struct target_limits *limits);

/* What two elements may not share: names, NSIDs, files, ids, addresses; and names of nothing. */
void config_cross_check(struct config_cursor *at, const struct config *config);

/* Serial number, UUID and NGUID where the document gave none; stable from one start to the next. */
void config_subsystem_derive(struct config_subsystem *subsystem);
/* What it points at, not the struct itself. */
void config_subsystem_release(struct config_subsystem *subsystem);
/* Would two listeners on these be in each other's way? */
bool config_addr_clash(const struct net_addr *a, const struct net_addr *b);

#endif
