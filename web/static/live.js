// Says in the header whether what the page shows is still coming in. A page
// that has stopped without saying so would be worse than none.
(function () {
  'use strict';

  var silence = 10000; // longer than the server is ever silent
  var timer;

  function show(live) {
    var sign = document.getElementById('live');
    if (sign && sign.dataset.live !== live) {
      sign.dataset.live = live;
    }
  }

  function heard() {
    show('on');
    window.clearTimeout(timer);
    timer = window.setTimeout(function () { show('off'); }, silence);
  }

  document.addEventListener('htmx:sseOpen', heard);
  document.addEventListener('htmx:sseMessage', heard);
  document.addEventListener('htmx:sseError', function () { show('off'); });
})();
