// @ts-check
// Templates of DOM. Own components are made by h(Component, {…}), so that tsc checks what they are given.

import htm from "htm";
import { h } from "preact";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
export { h };
