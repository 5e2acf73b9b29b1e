"""A client of the Model Context Protocol: drives the server as an agent host does. The official Python SDK.

    python3 client.py BINARY CASE KUBECONFIG

Prints one JSON object with what it saw.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def told(result):
    """Text, structured content, and whether it is an error."""
    text = "\n".join(part.text for part in result.content if getattr(part, "text", None))
    return {"text": text, "report": result.structured_content, "error": bool(result.is_error)}


async def call(session, name, arguments, **more):
    try:
        return told(await session.call_tool(name, arguments, **more))
    except Exception as error:  # what the protocol refuses
        return {"refused": str(error)}


async def every_tool(session, demo):
    out = {"tools": [], "resources": [], "calls": {}}
    for tool in (await session.list_tools()).tools:
        hints = tool.annotations
        out["tools"].append({"name": tool.name, "read_only": hints.read_only_hint, "schema": tool.input_schema})
    for resource in (await session.list_resources()).resources:
        page = await session.read_resource(resource.uri)
        out["resources"].append({"uri": str(resource.uri), "size": len(page.contents[0].text)})
    calls = out["calls"]
    calls["env"] = await call(session, "env", {"paths": [demo]})
    calls["node"] = await call(session, "node", {"namespace": "llm", "pods": ["decode-1"]})
    calls["nixl"] = await call(session, "nixl", {"namespace": "llm", "pods": ["decode-1"]})
    calls["check"] = await call(session, "check", {"deployment": "g", "namespace": "llm"})
    calls["explain"] = await call(session, "explain", {"subject": "UCX_TLS=rc,cuda_ipc"})
    calls["report"] = await call(session, "report", {"recording": demo})
    calls["prove"] = await call(session, "prove", {"deployment": "g", "namespace": "llm"})
    calls["other"] = await call(session, "check", {"deployment": "g", "kubeconfig": "/tmp/x"})
    calls["wrong"] = await call(session, "check", {"save": "/tmp/x"})
    calls["unread"] = await call(session, "env", {"paths": ["/nonexistent"]})
    return out


async def cancelled(session):
    ticks = []

    async def progress(done, total, message):
        ticks.append(done)

    arguments = {"deployment": "g", "namespace": "llm"}
    task = asyncio.create_task(session.call_tool("check", arguments, progress_callback=progress))
    while len(ticks) < 2:
        await asyncio.sleep(0.1)
        if task.done():
            return {"early": told(task.result())}
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    # The session goes on.
    after = await call(session, "explain", {"subject": "UCX_TLS"})
    print(json.dumps({"ticks": len(ticks), "after": after}), flush=True)
    # Until the test has looked at the cluster.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    return None


async def main():
    binary, case, kubeconfig, demo = sys.argv[1:5]
    server = StdioServerParameters(command=binary, args=["mcp", "--kubeconfig", kubeconfig] + sys.argv[5:])
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            if case == "tools":
                out = await every_tool(session, demo)
            else:
                out = await cancelled(session)
            if out is not None:
                print(json.dumps(out), flush=True)


asyncio.run(asyncio.wait_for(main(), 120))
