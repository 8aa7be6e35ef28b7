# The last layer of every image: the code that owns the kernel. It changes most often, so it is built apart.
ARG ENVIRONMENT
FROM ${ENVIRONMENT}
USER 0:0
COPY sandbox_guest /opt/sandbox/sandbox_guest
RUN python -m compileall -q --invalidation-mode unchecked-hash /opt/sandbox
USER 10001:10001
