"use strict";
// Gives a model a name, and moves aliases.

onSubmit("alias", async (form, { alias, version }) => {
  await send("PUT", form.dataset.path + encodeURIComponent(alias.value), { version: Number(version.value) });
  location.reload();
});

onSubmit("register", async (form, fields) => {
  // `form.elements.name` would do, `form.name` is the form's own.
  const { name } = await send("POST", form.dataset.path, { name: fields.namedItem("name").value });
  location.assign(`/registered-models/${name}`);
});
