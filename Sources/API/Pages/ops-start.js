// Runs last, when every part of the page is loaded: continues with the token and the time range stored in this tab.
"use strict";

const keptRange = sessionStorage.getItem(rangeKey);
if (keptRange !== null) chooseRange(keptRange);
if (token !== null) look();
