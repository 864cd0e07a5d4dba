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

  // A form that cannot be fetched into the page is gone to, so that the browser
  // says what is wrong.
  function go(event) {
    var link = event.detail.elt;
    if (link && link.href) {
      window.location.assign(link.href);
    }
  }

  // A form that has come goes on where its link had the focus, at its beginning,
  // so that what it will do is read before anything is typed.
  function begin(event) {
    var form = event.target.id === 'step' && document.getElementById('command');
    if (form) {
      form.focus();
    }
  }

  document.addEventListener('htmx:afterSettle', begin);
  document.addEventListener('htmx:sendError', go);
  document.addEventListener('htmx:responseError', go);
  document.addEventListener('htmx:sseOpen', heard);
  document.addEventListener('htmx:sseMessage', heard);
  document.addEventListener('htmx:sseError', function () { show('off'); });
})();
