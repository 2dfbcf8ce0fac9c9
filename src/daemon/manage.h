/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of hosts that change the configuration (target/manage.h), made changes of the document
 * like any other. Control reactor only.
 *
 * A subsystem with a pool lets its hosts manage namespaces: those in the pool are the hosts' own,
 * to make, attach, detach and delete, each by hosts that see it, or by any as long as nobody does.
 * All else is the administrator's: other namespaces, who sees those, and "hidden_from" everywhere.
 */
#ifndef WEFT_DAEMON_MANAGE_H
#define WEFT_DAEMON_MANAGE_H

#include "daemon/daemon.h"
#include "target/manage.h"

/* target_config.manage: ends with manage_done. `daemon` is a struct daemon. */
void manage_handle(void *daemon, struct manage_request *request);

/* ---- private to manage_*.c and their tests ----------------------------------------------------
 */

/* A file of a pool that goes after the change is kept. */
struct manage_file {
	char *folder;
	char *path;
	uint8_t nguid[16];
	struct uuid uuid; /* of its namespace */
};

/* -ENOMEM leaves something to release all the same. */
int manage_file_fill(json_t *subsystem, json_t *ns, char *taken_path, struct manage_file *ret_file);
void manage_file_release(struct manage_file *file);

/* One request on its way through the document. */
struct manage_edit {
	struct manage_request *request; /* result_nsid is filled in */
	nvme_status status;             /* why it was refused */
	struct manage_file *files;      /* DELETE */
	unsigned file_count;
	struct uuid *uuids; /* FORMAT: of the namespaces that it is about */
	unsigned uuid_count;
	/* Asked for every namespace that is to change; may be NULL. */
	bool (*is_formatting)(void *arg, const struct uuid *uuid);
	void *arg;
};

/* is_formatting of struct manage_edit, asked of a media registry. */
bool manage_is_formatting(void *arg_registry, const struct uuid *uuid);
/* manage_judge (target/manage.h). 0, or -errno with an error and a status. */
int manage_check_begin(struct manage_edit *edit, struct config_errors *errors);
/* Whether the host that asks has the right to. 0, or -errno with an error and a status. */
int manage_check_right(json_t *document, struct manage_edit *edit, struct config_errors *errors);
/* The document of the change, a full one (config_to_json). 0, or -errno with an error and a status.
 */
int manage_edit_create(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_delete(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_attach(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_detach(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_protect(json_t *document, struct manage_edit *edit, struct config_errors *errors);
int manage_edit_label(json_t *document, struct manage_edit *edit, struct config_errors *errors);
/* First step: which namespaces, and may they be formatted; changes nothing. */
int manage_edit_format_check(json_t *document, struct manage_edit *edit,
			     struct config_errors *errors);
/* Last step: their new block size. Those that are gone meanwhile are left out. */
int manage_edit_format(json_t *document, struct manage_edit *edit, struct config_errors *errors);
void manage_edit_release(struct manage_edit *edit);

/* Looking things up and refusing, for the above. */
json_t *manage_find_subsystem(json_t *document, struct manage_edit *edit,
			      struct config_errors *errors);
json_t *manage_find_ns(json_t *subsystem, struct manage_edit *edit, struct config_errors *errors);
bool manage_ns_is_in_pool(json_t *subsystem, json_t *ns, char **ret_path);
bool manage_list_has(const json_t *list, const char *text);
bool manage_ns_is_visible(const json_t *ns, const char *host_nqn);
int manage_refuse(struct manage_edit *edit, nvme_status status, int res,
		  struct config_errors *errors, const char *text);

/* Format NVM, manage_format.c. */
void manage_format_start(struct daemon *daemon, struct manage_request *request);
/* A result of the engine as a status; `edit` had its own say. */
nvme_status manage_status(const struct manage_edit *edit, int res);

#endif
